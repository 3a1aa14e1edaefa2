//! Requests on the wire: their connections and credentials, and the record of a server that does not answer. The servers
//! are plain sockets, because the tests look at bytes and connections; `src/watch/tests.rs` scripts answers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gimbal_kubernetes_client::{Access, ApiError, Cluster};
use gimbal_kubernetes_objects::{ConfigMap, Meta, Object as _, Service};
use gimbal_testkit::eventually;

const SOON: Duration = Duration::from_secs(30);

fn config(folder: &Path, url: &str, user: &str) -> std::io::Result<Access> {
    let path = folder.join("kubeconfig");
    let text = format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
          clusters: [{{name: c, cluster: {{server: '{url}'}}}}], users: [{{name: u, user: {user}}}]}}"
    );
    std::fs::write(&path, text)?;
    Ok(Access::Kubeconfig(path))
}

fn map() -> ConfigMap {
    let metadata = Meta { name: "a".into(), namespace: "b".into(), ..Meta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

/// Reads what was sent as far as it has come, and answers with this status.
fn answer(stream: &mut TcpStream, status: &str) -> std::io::Result<String> {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes)?;
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}")?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

#[tokio::test]
async fn the_permit_is_asked_when_a_connection_is_there_and_without_it_nothing_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let access = config(folder.path(), &format!("http://{}", server.local_addr().unwrap()), "{}").unwrap();
    let server = Arc::new(server);
    let (dialled, connected) = (server.clone(), Arc::new(AtomicBool::new(false)));
    let seen = connected.clone();
    let cluster = Cluster::connect(&access, "test").unwrap().only_while(move || {
        if let Ok((stream, _)) = dialled.accept() {
            seen.store(true, Ordering::SeqCst);
            // Whatever had been sent would be here.
            stream.set_nonblocking(true).unwrap();
            let read = (&stream).read(&mut [0; 16]);
            assert!(matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock));
        }
        false
    });
    assert_eq!(cluster.create(&map()).await, Err(ApiError::Withheld));
    assert!(connected.load(Ordering::SeqCst), "a connection was there when it was asked");
    assert_eq!(cluster.replace(&map()).await, Err(ApiError::Withheld));
    assert_eq!(cluster.delete(Service::KIND, "b", "a", "u", "1").await, Err(ApiError::Withheld));
    assert_eq!(cluster.failing_for(), None, "nothing was tried");

    // What is permitted is sent, and reads are.
    server.set_nonblocking(false).unwrap();
    let answering = std::thread::spawn(move || {
        let mut texts = Vec::new();
        while texts.len() < 2 {
            let (mut stream, _) = server.accept().unwrap();
            if let Ok(text) = answer(&mut stream, "200 OK")
                && !text.is_empty()
            {
                texts.push(text);
            }
        }
        texts
    });
    let permitted = Cluster::connect(&access, "test").unwrap().only_while(|| true);
    assert!(permitted.create(&map()).await.is_ok());
    assert!(cluster.get::<ConfigMap>("b", "a").await.is_ok());
    let texts = answering.join().unwrap();
    assert!(texts[0].starts_with("POST") && texts[1].starts_with("GET"), "{texts:?}");
}

#[tokio::test]
async fn a_token_is_replaced_when_its_file_is_and_all_connections_take_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let cluster = Cluster::connect(&config(folder.path(), &url, "{token: first}").unwrap(), "test").unwrap();
    let apart = cluster.apart();
    let answering = std::thread::spawn(move || {
        let mut tokens = Vec::new();
        for stream in server.incoming() {
            let text = answer(&mut stream.unwrap(), "401 Unauthorized").unwrap();
            let token = text.split("Bearer ").nth(1).and_then(|rest| rest.split('\r').next()).unwrap_or_default();
            tokens.push(token.to_owned());
            if tokens.iter().filter(|token| *token == "second").count() == 2 {
                return tokens;
            }
        }
        tokens
    });
    assert!(matches!(cluster.get::<ConfigMap>("b", "a").await, Err(ApiError::Unauthorized { .. })));
    config(folder.path(), &url, "{token: second}").unwrap();
    eventually("the second token is shown twice", SOON, async || {
        // The server has stopped by the time of the last calls.
        apart.get::<ConfigMap>("b", "a").await.ok();
        cluster.get::<ConfigMap>("b", "a").await.ok();
        anyhow::ensure!(answering.is_finished(), "not yet");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    let tokens = answering.join().unwrap();
    assert_eq!(tokens[0], "first");
    assert!(cluster.failing_for().is_some(), "who is not known is not answered");
}
