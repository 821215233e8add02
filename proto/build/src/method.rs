//! Template of the method statics: they need the core only, no runtime and no std.

use proc_macro2::TokenStream;
use quote::quote;

use crate::name::{self, METHOD};
use crate::service::{self, Generator, Kind, Method, Service};

/// `pub mod echo_method { pub static SAY: Method<..> = ..; }`
pub(crate) fn module(service: &Service, generator: &Generator) -> TokenStream {
    let statics: TokenStream = service.methods.iter().map(|method| method_static(method, generator)).collect();
    let doc = format!(" Methods of `{}`.", service.full_name);
    service::module(service, METHOD, &doc, &TokenStream::new(), &statics)
}

fn method_static(method: &Method, generator: &Generator) -> TokenStream {
    let root = &generator.root;
    let Method { path, doc, request, response, is_idempotent, .. } = method;
    let name = name::constant(&method.function);
    let kind = match method.kind {
        Kind::Unary => quote!(Unary),
        Kind::ClientStreaming => quote!(ClientStreaming),
        Kind::ServerStreaming => quote!(ServerStreaming),
        Kind::Bidi => quote!(Bidi),
    };
    let codecs = codecs(method, generator);
    quote! {
        #doc
        pub static #name: #root::Method<#request, #response> =
            #root::Method::new(#path, #root::CallKind::#kind, #is_idempotent, #codecs);
    }
}

fn codecs(method: &Method, Generator { root, owns_bytes, fields, .. }: &Generator) -> TokenStream {
    if !owns_bytes {
        return quote!(#root::Prost::codecs());
    }
    let Method { request, response, .. } = method;
    let [request_field, response_field] =
        [&method.request_path, &method.response_path].map(|message| fields.place(message, root));
    quote! {{
        const CODECS: &[#root::MethodCodec<#request, #response>] = &[#root::MethodCodec {
            request: &#root::ProstOwned::<#request>::new(#request_field),
            response: &#root::ProstOwned::<#response>::new(#response_field),
        }];
        CODECS
    }}
}
