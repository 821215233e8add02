//! Template of service traits and servers.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::name::{self, METHOD, SERVER};
use crate::service::{self, Generator, Kind, Method, Service};

/// `pub mod echo_server { pub trait Echo { .. } pub struct EchoServer<T> .. }`
pub(crate) fn module(service: &Service, generator: &Generator) -> TokenStream {
    let Generator { root, stub_attributes, .. } = generator;
    let trait_name = name::identifier(&service.name);
    let server = format_ident!("{}Server", service.name);
    let statics = name::module(&service.name, METHOD);
    let Service { doc: service_doc, full_name, .. } = service;
    let functions: TokenStream = service.methods.iter().map(|method| function(method, root)).collect();
    let specs = service.methods.iter().map(|method| {
        let constant = name::constant(&method.function);
        quote!(&super::#statics::#constant.spec)
    });
    let arms: TokenStream =
        service.methods.iter().enumerate().map(|(i, method)| arm(i, method, &trait_name, &statics)).collect();
    let items = quote! {
        /// Full name of the service.
        pub const SERVICE_NAME: &str = #full_name;

        #service_doc
        pub trait #trait_name: #root::MaybeSend + #root::MaybeSync + 'static {
            #functions
        }

        #[derive(::core::fmt::Debug)]
        pub struct #server<T> {
            service: T,
        }

        impl<T: #trait_name> #server<T> {
            /// Makes `service` fit for a router.
            pub fn new(service: T) -> Self {
                Self { service }
            }
        }

        impl<T: #trait_name> #root::Service for #server<T> {
            fn descriptor(&self) -> &'static #root::ServiceDescriptor {
                static METHODS: &[&#root::MethodSpec] = &[#(#specs),*];
                static DESCRIPTOR: #root::ServiceDescriptor = #root::ServiceDescriptor::new(SERVICE_NAME, METHODS);
                &DESCRIPTOR
            }

            fn call(
                self: #root::Arc<Self>,
                method: usize,
                call: #root::IncomingCall,
            ) -> #root::BoxFuture<'static, ()> {
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

/// One method of the dispatch.
fn arm(index: usize, method: &Method, trait_name: &proc_macro2::Ident, statics: &proc_macro2::Ident) -> TokenStream {
    let function = name::identifier(&method.function);
    let constant = name::constant(&method.function);
    let _ = (function, constant, trait_name, statics);
    quote!(#index => call.unimplemented(),)
}
