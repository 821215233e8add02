//! Rust names of services and methods that clash with nothing.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use heck::ToSnakeCase;
use proc_macro2::{Ident, Span};
use prost_types::{DescriptorProto, FileDescriptorProto};

use crate::error::Finding;

/// Functions that a client has besides the methods of its service.
const RESERVED: [&str; 1] = ["new"];

/// Suffixes of the modules that a service brings.
pub(crate) const METHOD: &str = "method";
pub(crate) const CLIENT: &str = "client";
pub(crate) const SERVER: &str = "server";

/// Distinct function names for the methods of a service, in order.
///
/// Protobuf tells `GetUser` and `get_user` apart, Rust's snake case does not: the second gets a number.
pub(crate) fn functions<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    names
        .map(|name| {
            let bare = match name.strip_prefix("r#").unwrap_or(name) {
                "" => "rpc", // a method called `_`
                bare => bare,
            };
            let mut function = if name.is_empty() { bare } else { name }.to_owned();
            if RESERVED.contains(&bare) {
                function = format!("{bare}_");
            }
            let mut number = 2;
            while !taken.insert(function.clone()) {
                function = format!("{bare}_{number}");
                number += 1;
            }
            function
        })
        .collect()
}

/// The static of a function: `say_hello` is `SAY_HELLO`.
pub(crate) fn constant(function: &str) -> Ident {
    identifier(&function.strip_prefix("r#").unwrap_or(function).to_uppercase())
}

/// An identifier from its text, raw or not.
pub(crate) fn identifier(name: &str) -> Ident {
    match name.strip_prefix("r#") {
        Some(bare) => Ident::new_raw(bare, Span::call_site()),
        None => Ident::new(name, Span::call_site()),
    }
}

/// Whether a name cannot stand for itself in Rust, in any edition.
pub(crate) fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &str = " abstract as async await become box break const continue crate do dyn else enum extern false \
        final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct \
        super trait true try type typeof unsafe unsized use virtual where while yield ";
    KEYWORDS.split_whitespace().any(|keyword| keyword == name)
}

/// A type of a service: `Echo` and `Client` give `EchoClient`. The service `Self` is the trait `Self_`, for `Self`
/// is a keyword; what is made of it needs no underscore.
pub(crate) fn type_with(service: &str, suffix: &str) -> Ident {
    identifier(&format!("{}{suffix}", service.trim_end_matches('_')))
}

/// The module of a service for one purpose: `EchoService` and `client` give `echo_service_client`.
pub(crate) fn module(service: &str, purpose: &str) -> Ident {
    identifier(&format!("{}_{purpose}", service.to_snake_case()))
}

/// Faults of a schema whose modules would be defined twice.
///
/// In one package, the modules of services stand beside those of messages with nested types (prost's
/// `pub mod`) and beside those of packages below it.
pub(crate) fn module_clashes(files: &[FileDescriptorProto], includes: &[PathBuf]) -> Vec<Finding> {
    let mut taken: BTreeMap<(&str, String), String> = BTreeMap::new();
    for file in files {
        for message in file.message_type.iter().filter(|message| has_module(message)) {
            let owner = format!("the types nested in message `{}`", message.name());
            taken.insert((file.package(), message.name().to_snake_case()), owner);
        }
        let mut package = file.package();
        while let Some((parent, child)) = package.rsplit_once('.') {
            taken.entry((parent, child.to_snake_case())).or_insert_with(|| format!("package `{package}`"));
            package = parent;
        }
    }
    let mut findings = Vec::new();
    for file in files {
        for (index, service) in file.service.iter().enumerate() {
            for purpose in [METHOD, CLIENT, SERVER] {
                let module = format!("{}_{purpose}", service.name().to_snake_case());
                let owner = format!("service `{}`", service.name());
                if let Some(other) = taken.insert((file.package(), module.clone()), owner) {
                    let message = format!(
                        "service `{}` needs the module `{module}`, which {other} has already; rename one of them",
                        service.name(),
                    );
                    findings.push(Finding::new(file.name(), span_of_service_name(file, index), message, includes));
                    break;
                }
            }
        }
    }
    findings
}

/// Whether prost gives the message a module.
fn has_module(message: &DescriptorProto) -> bool {
    let is_map_entry = |nested: &DescriptorProto| nested.options.as_ref().is_some_and(|o| o.map_entry());
    let synthetic = message.field.iter().filter(|field| field.proto3_optional()).count();
    !message.enum_type.is_empty()
        || message.oneof_decl.len() > synthetic
        || message.nested_type.iter().any(|nested| !is_map_entry(nested))
}

fn span_of_service_name(file: &FileDescriptorProto, index: usize) -> Option<(usize, usize)> {
    const SERVICES: i32 = 6; // FileDescriptorProto.service
    const NAME: i32 = 1; // ServiceDescriptorProto.name
    let path = [SERVICES, i32::try_from(index).ok()?, NAME];
    let location = file.source_code_info.as_ref()?.location.iter().find(|location| location.path == path)?;
    let [line, column, ..] = location.span[..] else { return None };
    Some((line.try_into().ok()?, column.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_with_one_snake_case_name_get_numbers_in_order() {
        let names = ["get_user", "get_user", "get_user_2", "get_user"];
        assert_eq!(functions(names.into_iter()), ["get_user", "get_user_2", "get_user_2_2", "get_user_3"]);
    }

    #[test]
    fn keywords_and_the_constructor_keep_out_of_the_way() {
        let names = ["r#type", "r#type", "self_", "new", ""];
        assert_eq!(functions(names.into_iter()), ["r#type", "type_2", "self_", "new_", "rpc"]);
        assert_eq!(constant("r#type").to_string(), "TYPE");
    }
}
