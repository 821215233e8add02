//! Machine-readable details of a status: `google.rpc.Status` in `grpc-status-details-bin`.

use alloc::string::ToString;
use alloc::vec;

use bytes::BytesMut;
use prost::{Message, Name};
use prost_types::Any;
use trirpc_core::CodecError;
use trirpc_core::call::Status;

use crate::google::rpc;

/// Packs messages into a status, and reads them out.
///
/// ```
/// use trirpc_core::call::{Code, Status};
/// use trirpc_proto::{StatusDetails, google::rpc::BadRequest};
///
/// let status = Status::new(Code::InvalidArgument, "no such city").with_detail(&BadRequest::default());
/// assert_eq!(status.detail::<BadRequest>(), Ok(Some(BadRequest::default())));
/// ```
pub trait StatusDetails: Sized {
    /// Adds a message, such as [`ErrorInfo`](rpc::ErrorInfo) or one of your own.
    ///
    /// Call it on a status that has its final code and message: the details repeat both.
    #[must_use]
    fn with_detail<M: Message + Name>(self, detail: &M) -> Self {
        self.with_any(Any { type_url: M::type_url(), value: detail.encode_to_vec() })
    }

    /// Adds a message that is packed already.
    #[must_use]
    fn with_any(self, detail: Any) -> Self;

    /// The first detail of type `M`, whatever the domain of its type URL.
    ///
    /// # Errors
    /// The details, or this one, do not decode.
    fn detail<M: Message + Name + Default>(&self) -> Result<Option<M>, CodecError> {
        let Some(status) = self.rpc_status()? else { return Ok(None) };
        // A type URL is a name behind the last `/`; what stands before it is the peer's choice.
        let is_wanted = |any: &&Any| any.type_url.rsplit_once('/').is_some_and(|(_, name)| name == M::full_name());
        match status.details.iter().find(is_wanted) {
            Some(any) => M::decode(&any.value[..]).map(Some).map_err(|error| CodecError::new(error.to_string())),
            None => Ok(None),
        }
    }

    /// All of it; `None` if the status came without details, or with those of another code, which say nothing about it.
    ///
    /// # Errors
    /// The details do not decode.
    fn rpc_status(&self) -> Result<Option<rpc::Status>, CodecError>;
}

impl StatusDetails for Status {
    fn with_any(self, detail: Any) -> Self {
        let mut addition = rpc::Status { code: 0, message: Default::default(), details: vec![detail] };
        if self.details().is_empty() {
            addition.code = code(&self);
            addition.message = self.message().into();
        }
        // Protobuf messages merge by concatenation: nothing is decoded to add a detail.
        let mut bytes = BytesMut::with_capacity(self.details().len() + addition.encoded_len());
        bytes.extend_from_slice(self.details());
        bytes.extend_from_slice(&addition.encode_to_vec());
        self.with_details(bytes.freeze())
    }

    fn rpc_status(&self) -> Result<Option<rpc::Status>, CodecError> {
        if self.details().is_empty() {
            return Ok(None);
        }
        match rpc::Status::decode(self.details().clone()) {
            Ok(status) => Ok(Some(status).filter(|status| code(self) == status.code)),
            Err(error) => Err(CodecError::new(error.to_string())),
        }
    }
}

/// The code as details have it. An unregistered code of a peer stays what it was; the field is signed.
fn code(status: &Status) -> i32 {
    i32::try_from(status.raw_code()).unwrap_or(i32::MAX)
}
