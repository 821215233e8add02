//! Template of clients.

use proc_macro2::TokenStream;
use quote::quote;

use crate::name::{self, CLIENT, METHOD};
use crate::service::{self, Generator, Kind, Method, Service};

/// `pub mod echo_client { pub struct EchoClient<C> .. }`
pub(crate) fn module(service: &Service, generator: &Generator) -> TokenStream {
    let Generator { root, stub_attributes, .. } = generator;
    let client = name::type_with(&service.name, "Client");
    let service_doc = &service.doc;
    let methods: TokenStream = service.methods.iter().map(|method| function(service, method, root)).collect();
    let items = quote! {
        #service_doc
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        pub struct #client<C = #root::Channel> {
            invoke: C,
        }

        impl<C: #root::Invoke> #client<C> {
            /// A client whose calls go through `invoke`, mostly a channel. Clones are cheap and share it.
            pub fn new(invoke: C) -> Self {
                Self { invoke }
            }

            #methods
        }
    };
    let doc = format!(" Client of `{}`.", service.full_name);
    service::module(service, CLIENT, &doc, stub_attributes, &items)
}

/// One method: it returns a call builder, and sends nothing yet.
fn function(service: &Service, method: &Method, root: &TokenStream) -> TokenStream {
    let Method { doc, request, response, .. } = method;
    let function = name::identifier(&method.function);
    let statics = name::module(&service.name, METHOD);
    let constant = name::constant(&method.function);
    let builder = match method.kind {
        Kind::Unary => quote!(UnaryCall),
        Kind::ServerStreaming => quote!(ServerStreamingCall),
        Kind::ClientStreaming => quote!(ClientStreamingCall),
        Kind::Bidi => quote!(BidiCall),
    };
    let (parameter, argument) = match method.kind {
        Kind::Unary | Kind::ServerStreaming => (quote!(, request: #request), quote!(, request)),
        Kind::ClientStreaming | Kind::Bidi => (quote!(), quote!()),
    };
    let deprecated = method.is_deprecated.then(|| quote!(#[deprecated]));
    quote! {
        #doc
        #deprecated
        pub fn #function(&self #parameter) -> #root::#builder<C, #request, #response> {
            #root::#builder::new(self.invoke.clone(), &super::#statics::#constant #argument)
        }
    }
}
