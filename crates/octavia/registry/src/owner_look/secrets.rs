//! Secrets of the key manager, as a look reads them. It has no filter for the beginning of a name, so all of a project are read.

use gimbal_kuryr_model::{DesiredKind, Text};
use gimbal_octavia_plan::{ApiService, HiddenSecrets, Mark, SeenSecret};
use serde_json::Value;

use super::{LookPart, LookRead, OwnerLook, list};
use crate::cell::{Cell, CellState};
use crate::cluster::ManagedCluster;

/// What a look has seen of the key manager.
#[derive(Debug, Default)]
pub(super) struct SecretsLook {
    /// The mark that is looked for; unset: none is.
    mark: Option<Mark>,
    /// The only project whose secrets matter; unset: those of each do.
    needed: Option<Text>,
    found: Vec<SeenSecret>,
    hidden: Option<HiddenSecrets>,
}

impl SecretsLook {
    pub(super) fn take(&mut self, rows: &[Value], project: &Text) {
        let Some(mark) = &self.mark else { return };
        for secret in rows.iter().filter_map(|row| SeenSecret::read(row, project, mark)) {
            if self.found.iter().all(|one| one.id != secret.id) {
                self.found.push(secret);
            }
        }
    }

    /// Whether it matters that the secrets of a project cannot be read. What an owner needs is stored in its own project; another one
    /// has at most what was left there, which goes when it can be read.
    fn needs(&self, project: &Text) -> bool {
        self.needed.as_ref().is_none_or(|needed| needed == project)
    }

    /// Returns what was seen, or why that is not all.
    pub(super) fn end(self) -> (Vec<SeenSecret>, Option<HiddenSecrets>) {
        (self.found, self.hidden)
    }
}

impl OwnerLook {
    /// Looks for secrets in these projects too; `needed`: the only one that must be readable, if that is not each.
    pub(crate) fn add_secrets(&mut self, mark: Mark, projects: &[Text], needed: Option<Text>) -> Vec<LookRead> {
        (self.secrets.mark, self.secrets.needed) = (Some(mark), needed);
        self.outstanding += projects.len();
        let read = |project: &Text| (LookPart::Secrets, project.clone(), secrets_of_project());
        projects.iter().map(read).collect()
    }

    /// Takes note that the secrets of a project could not be read: that is no reason to know nothing of the rest. The
    /// answer, which came before, says why.
    pub(crate) fn secrets_unread(&mut self, project: &Text) -> Vec<LookRead> {
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.secrets.needs(project) {
            self.secrets.hidden.get_or_insert_default();
        }
        self.ask_for_users()
    }
}

impl ManagedCluster {
    /// Whether an owner may have something in the key manager. For those that are gone it is asked where there are routers.
    pub(crate) fn may_have_secrets(&self, cell: &Cell) -> bool {
        cell.key.kind == DesiredKind::L7Router || (cell.is_orphan && self.facts.certificates)
    }

    /// Takes note why a look does not see what the key manager has.
    pub(crate) fn secrets_hidden(&mut self, owner: &Text, number: u64, project: &Text, hidden: HiddenSecrets) {
        let Some(cell) = self.cells.get_mut(owner) else { return };
        if let CellState::Looking(look) = &mut cell.state
            && look.number == number
            && look.secrets.needs(project)
        {
            // One that may answer next time is asked again, whatever others do.
            let is_worse = look.secrets.hidden.as_ref().is_none_or(|known| known.is_refused);
            if is_worse {
                look.secrets.hidden = Some(hidden);
            }
        }
    }
}

/// Returns a read of all secrets of a project.
pub(crate) fn secrets_of_project() -> crate::call::CloudRead {
    list(ApiService::KeyManager, "secret", "secrets", Vec::new())
}
