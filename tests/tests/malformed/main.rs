//! What a peer that breaks the rules gets to see: each row of the matrix of malformed input (triple-protocol §3.6, with
//! §3.2, §3.4, §3.5 and §3.7 where they say more), for our server and for our client.
//!
//! Every case has a connection of its own; after it, an ordinary call on the same connection must succeed, unless the
//! row says that the connection ends. `docs/malformed.md` shows the rows beside what other implementations do.

mod client;
mod document;
mod exchange;
mod live;
mod server;
mod triple;
mod wire;
