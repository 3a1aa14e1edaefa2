//! A Service that the writer cannot read, as from an agent of a newer version.

use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_model::SourceKey;
use gimbal_plan::EndpointsApi;
use gimbal_session::{AgentMessage, Data, Frame, PieceChange, RejectReason, Unreadable};

use super::world::{World, key, service};
use super::{OPEN, check};

/// Makes the part of a message about a key unreadable.
pub(super) fn spoil(message: &mut AgentMessage, of: &SourceKey) {
    let unreadable = || Unreadable { key: Some(of.clone()), reason: "a new kind".into(), more: false };
    let AgentMessage::Data(Data { frame, .. }) = message else { return };
    match frame {
        Frame::SnapshotChunk { pieces, .. } => {
            let its =
                |piece: &&mut Result<gimbal_session::Piece, _>| piece.as_ref().is_ok_and(|piece| piece.key == *of);
            pieces.iter_mut().filter(its).for_each(|piece| *piece = Err(unreadable()));
        }
        Frame::Delta { changes, .. } => {
            for change in changes {
                let key = match change {
                    Ok(PieceChange::Replace(piece)) => &piece.key,
                    Ok(PieceChange::Update { key, .. }) => key,
                    _ => continue,
                };
                if key == of {
                    *change = Err(unreadable());
                }
            }
        }
        _ => {}
    }
}

/// An unreadable Service is not absent, even if nothing else is known of it, and it does not affect the others.
#[test]
fn what_cannot_be_read_stays_and_the_others_go_their_way() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    for n in [0, 2, 3] {
        world.set(0, &key(n), Some(service(0, 0, &[1])));
    }
    world.settle();
    let held = world.server.objects.clone();
    world.unreadable = Some(key(0));
    world.restart_writer();
    world.settle();
    assert_eq!(world.server.objects, held, "it is there, in whatever state");
    let rejects = || [(Some(key(0)), RejectReason::Invalid)];
    let told = |world: &World| world.rejects(0).into_iter().map(|r| (r.key, r.reason)).collect::<Vec<_>>();
    assert_eq!(told(&world), rejects());

    // It is removed while no writer runs; a complete snapshot shows that.
    world.cut(0);
    world.restart_writer();
    world.set(0, &key(3), None);
    world.settle();
    assert_eq!(world.services().count(), 2);
    assert_eq!(told(&world), rejects());

    world.unreadable = None;
    world.set(0, &key(0), Some(service(1, 0, &[2])));
    world.settle();
    check(&world);
    assert_eq!(world.rejects(0), []);
}

/// The removal of a Service is held when it comes back in an unreadable form; then nothing is to be removed any more.
#[test]
fn what_is_back_and_cannot_be_read_keeps_its_object() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.settle();
    world.set(0, &key(0), None);
    world.settle_for(Duration::from_secs(2));
    let held = |world: &World| world.writer.backends().values().find_map(|backend| backend.guards().removals().held());
    let before = world.server.objects.clone();
    let hold = held(&world).expect("held");
    world.unreadable = Some(key(0));
    world.set(0, &key(0), Some(service(1, 0, &hosts)));
    world.settle();
    assert_eq!(held(&world), None, "there is nothing to be held");
    assert!(world.writer.approve(&gimbal_model::BackendName::parse("a").unwrap(), &hold.id).is_none());
    // A snapshot does not remove it either.
    world.cut(0);
    world.settle();
    assert_eq!(world.server.objects, before);
    assert_eq!(world.unacknowledged(0), 0);
}
