//! Fields of messages that a codec reads without prost: one piece of text or bytes each.

use std::collections::HashMap;

use heck::ToSnakeCase;
use proc_macro2::TokenStream;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use quote::quote;

use crate::name;

/// Those of each message, by its name in Protobuf with a leading dot.
#[derive(Clone, Default)]
pub(crate) struct Fields(HashMap<String, Vec<Field>>);

#[derive(Clone)]
struct Field {
    number: u32,
    name: String,
    is_text: bool,
    /// It is an `Option` in Rust.
    is_optional: bool,
}

impl Fields {
    /// Those of all messages that are generated from `files`.
    pub(crate) fn of(files: &[FileDescriptorProto]) -> Self {
        let mut fields = Self::default();
        for file in files.iter().filter(|file| file.package() != "google.protobuf") {
            let package = match file.package() {
                "" => String::new(),
                package => format!(".{package}"),
            };
            for message in &file.message_type {
                fields.add(&package, message, file.syntax());
            }
        }
        fields
    }

    fn add(&mut self, scope: &str, message: &DescriptorProto, syntax: &str) {
        let path = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.add(&path, nested, syntax);
        }
        self.0.insert(path, message.field.iter().filter_map(|field| Field::new(field, syntax)).collect());
    }

    /// A function from the number of a field of this message to the field, or `None`.
    pub(crate) fn place(&self, message: &str, root: &TokenStream) -> TokenStream {
        let fields = self.0.get(message).map_or(&[][..], Vec::as_slice);
        if fields.is_empty() {
            return quote!(|_, _| None);
        }
        let arms = fields.iter().map(|field| {
            let (number, name) = (field.number, name::identifier(&field.name));
            let variant = if field.is_text { quote!(Text) } else { quote!(Bytes) };
            let place = if field.is_optional {
                quote!(message.#name.get_or_insert_default())
            } else {
                quote!(&mut message.#name)
            };
            quote!(#number => Some(#root::ProstField::#variant(#place)),)
        });
        quote! {
            |message, number| match number {
                #(#arms)*
                _ => None,
            }
        }
    }
}

impl Field {
    /// The largest number whose key takes one octet: the codec looks at no others.
    const MAX_NUMBER: u32 = 15;

    /// `None` for a field of another kind, and for one whose name is another one in Rust.
    fn new(field: &FieldDescriptorProto, syntax: &str) -> Option<Self> {
        let is_text = match field.r#type() {
            Type::String => true,
            Type::Bytes => false,
            _ => return None,
        };
        let is_alternative = field.oneof_index.is_some() && !field.proto3_optional();
        let is_optional = match (field.label(), syntax) {
            (Label::Repeated, _) => return None,
            (Label::Optional, "proto3") => field.proto3_optional(),
            (label, "" | "proto2") => label == Label::Optional,
            _ => return None,
        };
        let name = field.name();
        if is_alternative || name.to_snake_case() != name || name::is_keyword(name) {
            return None;
        }
        let number = u32::try_from(field.number()).ok().filter(|&number| number <= Self::MAX_NUMBER)?;
        Some(Self { number, name: name.to_owned(), is_text, is_optional })
    }
}
