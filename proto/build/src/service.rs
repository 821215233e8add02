//! What one service brings into the file of its package.

use proc_macro2::TokenStream;
use prost_build::{Comments, ServiceGenerator};
use prost_types::method_options::IdempotencyLevel;
use quote::quote;

use crate::field::Fields;
use crate::{client, method, name, server};

/// Which parts are generated, and from where the code takes its names.
#[derive(Clone)]
pub(crate) struct Generator {
    /// Path of the module that re-exports every name of [`trirpc`](https://docs.rs/trirpc).
    pub(crate) root: TokenStream,
    pub(crate) client: bool,
    pub(crate) server: bool,
    /// No message has a field of type `Bytes`.
    pub(crate) owns_bytes: bool,
    /// Fields that are read without prost; used only if so.
    pub(crate) fields: Fields,
    /// Attributes on the modules of client and server.
    pub(crate) stub_attributes: TokenStream,
}

/// A service, ready for the templates.
pub(crate) struct Service {
    /// Name in Rust: upper camel case.
    pub(crate) name: String,
    /// Full name in Protobuf, `package.Service`.
    pub(crate) full_name: String,
    /// Documentation as tokens.
    pub(crate) doc: TokenStream,
    pub(crate) methods: Vec<Method>,
}

/// A method, ready for the templates.
pub(crate) struct Method {
    /// Function name in Rust; may be a raw identifier.
    pub(crate) function: String,
    /// `/package.Service/Method`.
    pub(crate) path: String,
    pub(crate) doc: TokenStream,
    /// Types as seen from a module of the service.
    pub(crate) request: TokenStream,
    pub(crate) response: TokenStream,
    /// Their names in Protobuf, with a leading dot.
    pub(crate) request_path: String,
    pub(crate) response_path: String,
    pub(crate) kind: Kind,
    pub(crate) is_idempotent: bool,
    pub(crate) is_deprecated: bool,
}

/// The four kinds of call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Unary,
    ClientStreaming,
    ServerStreaming,
    Bidi,
}

impl ServiceGenerator for Generator {
    fn generate(&mut self, service: prost_build::Service, buf: &mut String) {
        let service = Service::new(service);
        let mut code = method::module(&service, self);
        if self.client {
            code.extend(client::module(&service, self));
        }
        if self.server {
            code.extend(server::module(&service, self));
        }
        buf.push_str(&code.to_string());
        buf.push('\n');
    }
}

impl Service {
    fn new(service: prost_build::Service) -> Self {
        let full_name = match service.package.as_str() {
            "" => service.proto_name,
            package => format!("{package}.{}", service.proto_name),
        };
        let functions = name::functions(service.methods.iter().map(|method| method.name.as_str()));
        let methods =
            service.methods.iter().zip(functions).map(|(method, f)| Method::new(method, f, &full_name)).collect();
        Self { name: service.name, doc: doc(&service.comments), full_name, methods }
    }
}

impl Method {
    fn new(method: &prost_build::Method, function: String, service: &str) -> Self {
        let kind = match (method.client_streaming, method.server_streaming) {
            (false, false) => Kind::Unary,
            (true, false) => Kind::ClientStreaming,
            (false, true) => Kind::ServerStreaming,
            (true, true) => Kind::Bidi,
        };
        Self {
            function,
            path: format!("/{service}/{}", method.proto_name),
            doc: doc(&method.comments),
            request: type_from_submodule(&method.input_type),
            response: type_from_submodule(&method.output_type),
            request_path: method.input_proto_type.clone(),
            response_path: method.output_proto_type.clone(),
            kind,
            is_idempotent: method.options.idempotency_level() != IdempotencyLevel::IdempotencyUnknown,
            is_deprecated: method.options.deprecated(),
        }
    }
}

/// `prost_build` names types as seen from the module of the package; ours stand one level deeper.
fn type_from_submodule(path: &str) -> TokenStream {
    // Primitives stand for google.protobuf.BoolValue and its siblings, `()` for Empty.
    let is_absolute = path.starts_with("::")
        || path.starts_with("crate::")
        || matches!(path, "()" | "bool" | "i32" | "i64" | "u32" | "u64" | "f32" | "f64");
    let path = if is_absolute { path.to_owned() } else { format!("super::{path}") };
    path.parse().expect("prost names types by valid paths")
}

/// Comments of the proto as documentation.
fn doc(comments: &Comments) -> TokenStream {
    let mut text = String::new();
    let attached = Comments { leading_detached: Vec::new(), ..comments.clone() };
    attached.append_with_indent(0, &mut text);
    text.parse().expect("a line comment is a token")
}

/// The module of one part of a service, with attributes that keep lints of the including crate out.
pub(crate) fn module(
    service: &Service,
    purpose: &str,
    doc: &str,
    attributes: &TokenStream,
    items: &TokenStream,
) -> TokenStream {
    let module = name::module(&service.name, purpose);
    quote! {
        #[doc = #doc]
        #attributes
        #[allow(clippy::all, dead_code, missing_docs, unreachable_pub, unused_qualifications)]
        pub mod #module {
            #items
        }
    }
}
