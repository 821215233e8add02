//! `Config::embedded`: what a device with 64 KiB for a connection does with them.

use bytes::Bytes;
use trirpc_core::buf::Encoded;
use trirpc_core::call::{CallKind, CallOptions, Metadata, MethodSpec, Recv, Status};
use trirpc_core::{CallId, Client, Config, Role, Server};
use trirpc_tests::alloc::measure;

use crate::victim::{Victim, now};

static SAY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);

/// All the memory that there is, messages of the application included.
const MEMORY: i64 = 64 * 1024;
/// Calls one after the other.
const CALLS: usize = 20;

fn message() -> Encoded {
    Encoded { bytes: Bytes::from(vec![0xa5; 4096]), compressed: false }
}

/// What an end has to say now.
fn said<R: Role>(end: &mut Victim<R>) -> Vec<u8> {
    let mut octets = Vec::new();
    end.write_to(|chunk| octets.extend_from_slice(chunk));
    octets
}

fn call(client: &mut Victim<Client>) -> CallId {
    client.conn.open_unary_encoded(&SAY, &CallOptions::default(), "proto", message(), now()).expect("a stream")
}

fn finish(client: &mut Victim<Client>, call: CallId) {
    let outcome = client.conn.take_outcome(call).expect("an outcome");
    assert_eq!((outcome.status, outcome.message.map(|message| message.len())), (Status::OK, Some(4096)));
}

fn answer(server: &mut Victim) {
    let id = server.accepted.pop().expect("a call");
    let mut call = server.conn.call(id).expect("a call");
    let Recv::Message(request) = call.recv() else { panic!("no request") };
    assert_eq!(request.len(), 4096);
    let (head, trailers) = (Metadata::new(), Metadata::new());
    call.respond_encoded(message(), &head, &trailers, now()).expect("it is sent");
}

/// The last call that came, once its request is there.
fn answer_what_is_there(server: &mut Victim) {
    let Some(&id) = server.accepted.last() else { return };
    if server.conn.call(id).is_some_and(|call| call.is_readable()) {
        answer(server);
    }
}

/// What both ends say to each other in one call, a turn of each at a time.
type Turns = Vec<(Vec<u8>, Vec<u8>)>;

fn transcript() -> Vec<Turns> {
    let (mut client, mut server) = (Victim::client(Config::embedded()), Victim::fresh(Config::embedded(), false));
    // What they have to say is taken from them, and not before.
    client.writes = false;
    let mut one = || {
        let id = call(&mut client);
        let mut turns = Vec::new();
        loop {
            let request = said(&mut client);
            server.take(&request);
            answer_what_is_there(&mut server);
            let response = said(&mut server);
            client.hear(&response);
            if request.is_empty() && response.is_empty() {
                break;
            }
            turns.push((request, response));
        }
        finish(&mut client, id);
        turns
    };
    (0..CALLS).map(|_| one()).collect()
}

/// `h2:E5`, `h2:P3`: unary calls with 4 KiB each way, in 64 KiB, as client.
#[test]
fn a_client_calls_in_64_kilobytes() {
    let transcript = transcript();
    let (client, cost) = measure(|| {
        let mut client = Victim::client(Config::embedded());
        for turns in &transcript {
            let id = call(&mut client);
            for (_, response) in turns {
                client.write_all();
                client.hear(response);
            }
            finish(&mut client, id);
        }
        client
    });
    client.is_fine();
    assert!((8 * 1024..MEMORY).contains(&cost.peak), "{cost:?}");
}

/// `h2:E5`, `h2:P3`: the same as server.
#[test]
fn a_server_answers_in_64_kilobytes() {
    let transcript = transcript();
    let (server, cost) = measure(|| {
        let mut server: Victim<Server> = Victim::fresh(Config::embedded(), true);
        for (request, _) in transcript.iter().flatten() {
            server.take(request);
            answer_what_is_there(&mut server);
            server.write_all();
        }
        server
    });
    server.is_fine();
    assert!((8 * 1024..MEMORY).contains(&cost.peak), "{cost:?}");
}
