//! What a handle for making calls adds to each of them.

use std::borrow::Cow;

use trirpc_core::call::{CallOptions, Encodings, Protocol, Status};

use crate::compress::{Codings, Compressions, Compressor};

/// What a [`Channel`](crate::Channel) or a [`ClientSession`](crate::ClientSession) adds to its calls. Nothing is
/// the common case, and costs a look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) compressions: Compressions,
    /// How calls are written that do not say it.
    pub(crate) protocol: Option<Protocol>,
}

/// What goes with one call, apart from what the core is told.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    pub(crate) codings: Codings,
}

impl Stack {
    /// The options of a call with what this adds.
    ///
    /// # Errors
    /// The call asks for a compression that is not here.
    pub(crate) fn prepare<'a>(&self, options: &'a CallOptions) -> Result<(Cow<'a, CallOptions>, Attached), Status> {
        let mut options = Cow::Borrowed(options);
        if let (None, Some(protocol)) = (options.protocol, self.protocol) {
            options.to_mut().protocol = Some(protocol);
        }
        let send = match options.compression {
            Some("identity") => None,
            Some(name) => Some(self.compressions.find(name).ok_or_else(|| unknown(name))?),
            None => self.compressions.default_send(),
        };
        let name = send.map(|algorithm| algorithm.name());
        if self.compressions.is_none() {
            if options.accept_compressions.as_ref().is_some_and(|names| !names.is_empty()) {
                options.to_mut().accept_compressions = Some(Encodings::NONE);
            }
            return Ok((options, Attached::default()));
        }
        let owned = options.to_mut();
        owned.compression = name;
        owned.accept_compressions = Some(self.compressions.accept_names());
        let codings = Codings { accept: self.compressions.clone(), send: Compressor::new(send), ..Codings::default() };
        Ok((options, Attached { codings }))
    }
}

fn unknown(name: &str) -> Status {
    Status::invalid_argument(format!("there is no compression `{name}` here: add it to the channel first"))
}
