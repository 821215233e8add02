//! Template of service traits and servers.

use proc_macro2::TokenStream;
use quote::quote;

use crate::name::{self, METHOD, SERVER};
use crate::service::{self, Generator, Kind, Method, Service};

/// `pub mod echo_server { pub trait Echo { .. } pub struct EchoServer<T> { .. } }`
pub(crate) fn module(service: &Service, generator: &Generator) -> TokenStream {
    let Generator { root, stub_attributes, .. } = generator;
    let trait_name = name::identifier(&service.name);
    let server = name::type_with(&service.name, "Server");
    let Service { doc: service_doc, full_name, methods, .. } = service;
    let functions: TokenStream = methods.iter().map(|method| function(method, root)).collect();
    let constants: Vec<_> = methods.iter().map(|method| constant(service, method)).collect();
    let arms: TokenStream = methods.iter().enumerate().map(|(index, method)| arm(index, method, service)).collect();
    let doc = format!(" Serves an implementation of [`{}`](trait@{0}).", service.name);
    // A service may be called `T`: `self::` tells the trait from the parameter.
    let items = quote! {
        /// Full name of the service.
        pub const SERVICE_NAME: &str = #full_name;

        #service_doc
        pub trait #trait_name: #root::MaybeSend + #root::MaybeSync + 'static {
            #functions
        }

        #[doc = #doc]
        #[derive(::core::fmt::Debug)]
        pub struct #server<T> {
            service: T,
        }

        impl<T: self::#trait_name> #server<T> {
            /// A server to be added to a router.
            pub fn new(service: T) -> Self {
                Self { service }
            }
        }

        impl<T: self::#trait_name> #root::Service for #server<T> {
            fn descriptor(&self) -> &'static #root::ServiceDescriptor {
                static METHODS: &[&#root::MethodSpec] = &[#(&#constants.spec),*];
                static DESCRIPTOR: #root::ServiceDescriptor = #root::ServiceDescriptor::new(SERVICE_NAME, METHODS);
                &DESCRIPTOR
            }

            fn call(
                self: #root::prost::alloc::sync::Arc<Self>,
                method: usize,
                call: #root::IncomingCall,
            ) -> #root::Handling {
                match method {
                    #arms
                    _ => call.unimplemented(),
                }
            }
        }
    };
    let doc = format!(" Service trait and server of `{full_name}`.");
    service::module(service, SERVER, &doc, stub_attributes, &items)
}

/// The static of a method, as seen from the module.
fn constant(service: &Service, method: &Method) -> TokenStream {
    let statics = name::module(&service.name, METHOD);
    let constant = name::constant(&method.function);
    quote!(super::#statics::#constant)
}

/// One method of the trait.
fn function(method: &Method, root: &TokenStream) -> TokenStream {
    let Method { doc, request, response, .. } = method;
    let function = name::identifier(&method.function);
    let input = match method.kind {
        Kind::Unary | Kind::ServerStreaming => quote!(request: #request),
        Kind::ClientStreaming | Kind::Bidi => quote!(rx: &mut #root::Streaming<#request>),
    };
    let (sender, output) = match method.kind {
        Kind::Unary | Kind::ClientStreaming => (quote!(), quote!(#response)),
        Kind::ServerStreaming | Kind::Bidi => (quote!(, tx: &mut #root::Sender<#response>), quote!(())),
    };
    quote! {
        #doc
        fn #function(&self, cx: &mut #root::Context, #input #sender)
            -> impl ::core::future::Future<Output = ::core::result::Result<#output, #root::Status>> + #root::MaybeSend;
    }
}

/// One method of the dispatch: calls the handler with its input, and gives its result back.
fn arm(index: usize, method: &Method, service: &Service) -> TokenStream {
    let trait_name = name::identifier(&service.name);
    let function = name::identifier(&method.function);
    let constant = constant(service, method);
    let (serve, input, arguments, answer) = match method.kind {
        Kind::Unary => {
            (quote!(unary), quote!(mut cx, request), quote!(request), quote!(cx.respond(&#constant, result)))
        }
        Kind::ClientStreaming => {
            (quote!(client_streaming), quote!(mut cx, mut rx), quote!(&mut rx), quote!(cx.respond(&#constant, result)))
        }
        Kind::ServerStreaming => (
            quote!(server_streaming),
            quote!(mut cx, request, mut tx),
            quote!(request, &mut tx),
            quote!(cx.finish(result)),
        ),
        Kind::Bidi => {
            (quote!(bidi), quote!(mut cx, mut rx, mut tx), quote!(&mut rx, &mut tx), quote!(cx.finish(result)))
        }
    };
    quote! {
        #index => call.#serve(&#constant, move |#input| async move {
            let result = <T as self::#trait_name>::#function(&self.service, &mut cx, #arguments).await;
            #answer;
        }),
    }
}
