//! Generates Rust code for Protobuf services, from a `build.rs` and without a `protoc` binary.
//!
//! ```no_run
//! trirpc_build::configure().compile(&["proto/hello.proto"], &["proto"])?;
//! # Ok::<(), trirpc_build::Error>(())
//! ```
//!
//! Each Protobuf package becomes one file, `<package>.rs`, with
//!
//! - the messages, by [prost](https://docs.rs/prost): `bytes` fields are `bytes::Bytes`, maps are
//!   `BTreeMap`, so that they live without std and without copies. They know their type URL and can be
//!   packed into a `google.protobuf.Any`;
//! - for a service `Echo` the module `echo_method` with one static `Method<Request, Response>` for each
//!   method. Messages and methods compile without std;
//! - `echo_client::EchoClient`, and `echo_server::{Echo, EchoServer}`, which need the async call layer.
//!   [`build_client`](Config::build_client) and [`build_server`](Config::build_server) leave them out.
//!
//! Every path is fully qualified from one root, `::trirpc` unless [`root`](Config::root) says another.
#![forbid(unsafe_code)]

mod client;
mod error;
mod field;
mod method;
mod name;
mod server;
mod service;

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;

pub use error::Error;

/// The defaults: clients and servers, with names from `::trirpc`, into `OUT_DIR`.
pub fn configure() -> Config {
    Config {
        root: "::trirpc".to_owned(),
        out_dir: None,
        include_file: None,
        services: true,
        client: true,
        server: true,
        stub_attributes: Vec::new(),
        bytes: vec![".".to_owned()],
        btree_map: vec![".".to_owned()],
        extern_paths: Vec::new(),
        type_attributes: Vec::new(),
        field_attributes: Vec::new(),
    }
}

/// Generates code for one proto with the defaults; its own directory is the include path.
///
/// # Errors
/// As [`Config::compile`].
pub fn compile_protos(proto: impl AsRef<Path>) -> Result<(), Error> {
    let proto = proto.as_ref();
    let directory = match proto.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    configure().compile(&[proto], &[directory])
}

/// What to generate, and where to; made by [`configure`].
#[derive(Clone, Debug)]
#[must_use = "nothing is generated before `compile`"]
pub struct Config {
    root: String,
    out_dir: Option<PathBuf>,
    include_file: Option<PathBuf>,
    services: bool,
    client: bool,
    server: bool,
    stub_attributes: Vec<String>,
    bytes: Vec<String>,
    btree_map: Vec<String>,
    extern_paths: Vec<(String, String)>,
    type_attributes: Vec<(String, String)>,
    field_attributes: Vec<(String, String)>,
}

impl Config {
    /// Path under which the generated code finds `Method`, `Channel`, `prost` and every other name.
    /// Default `::trirpc`; `::trirpc_proto::codegen` serves code without std.
    pub fn root(mut self, path: impl Into<String>) -> Self {
        self.root = path.into();
        self
    }

    /// Directory for the generated files; it is created. Default: `OUT_DIR` of the build script.
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(directory.into());
        self
    }

    /// Also writes a file with this name, which includes all others in modules nested as the packages
    /// are. References between packages need this nesting.
    pub fn include_file(mut self, name: impl Into<PathBuf>) -> Self {
        self.include_file = Some(name.into());
        self
    }

    /// Whether to generate clients. Default yes.
    pub fn build_client(mut self, yes: bool) -> Self {
        self.client = yes;
        self
    }

    /// Whether to generate service traits and servers. Default yes.
    pub fn build_server(mut self, yes: bool) -> Self {
        self.server = yes;
        self
    }

    /// Generates messages and nothing for services, not even method statics.
    pub fn messages_only(mut self) -> Self {
        self.services = false;
        self
    }

    /// Puts an attribute on the modules of clients and servers, as `#[cfg(feature = "client")]`.
    pub fn stub_attribute(mut self, attribute: impl Into<String>) -> Self {
        self.stub_attributes.push(attribute.into());
        self
    }

    /// The `bytes` fields that are `bytes::Bytes`; others are `Vec<u8>`. Default all (`["."]`). A path
    /// names a package, message or field, from a leading dot.
    pub fn bytes(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.bytes = paths.into_iter().map(Into::into).collect();
        self
    }

    /// The map fields that are `BTreeMap`; others are `HashMap` and need std. Default all (`["."]`).
    pub fn btree_map(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.btree_map = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Takes the types under a Protobuf path (`.google.rpc`) from a Rust path (`::trirpc::proto::google::rpc`)
    /// instead of generating them.
    pub fn extern_path(mut self, proto_path: impl Into<String>, rust_path: impl Into<String>) -> Self {
        self.extern_paths.push((proto_path.into(), rust_path.into()));
        self
    }

    /// Puts an attribute on messages, enums and oneofs under a path.
    pub fn type_attribute(mut self, path: impl Into<String>, attribute: impl Into<String>) -> Self {
        self.type_attributes.push((path.into(), attribute.into()));
        self
    }

    /// Puts an attribute on the fields under a path.
    pub fn field_attribute(mut self, path: impl Into<String>, attribute: impl Into<String>) -> Self {
        self.field_attributes.push((path.into(), attribute.into()));
        self
    }

    /// Generates the code of `protos`, and of what they import. `includes` are the directories in which
    /// imports are looked up; each proto must lie below one of them. `google/protobuf/*.proto` need none.
    ///
    /// The same input gives the same files, byte by byte; a file that would not change is not touched.
    /// Tells cargo to run the build script again when one of the protos changes.
    ///
    /// # Errors
    /// A schema that does not compile (with file, line and column), an option that is not Rust, or a
    /// directory that cannot be written.
    pub fn compile(&self, protos: &[impl AsRef<Path>], includes: &[impl AsRef<Path>]) -> Result<(), Error> {
        let includes: Vec<PathBuf> = includes.iter().map(|include| include.as_ref().to_owned()).collect();
        let (mut config, mut generator) = (self.prost()?, self.generator()?);
        let directory = self.directory()?;
        let files = parse(protos, &includes)?;
        if self.services {
            let clashes = name::module_clashes(&files, &includes);
            if !clashes.is_empty() {
                return Err(Error::schema(clashes));
            }
            if generator.owns_bytes {
                generator.fields = field::Fields::of(&files);
            }
            config.service_generator(Box::new(generator));
        }
        fs::create_dir_all(&directory).map_err(|error| Error::write(&directory, error))?;
        config.out_dir(&directory).compile_fds(prost_types::FileDescriptorSet { file: files }).map_err(|error| {
            match error.kind() {
                std::io::ErrorKind::InvalidInput => Error::config(error.to_string()),
                _ => Error::write(&directory, error),
            }
        })
    }

    fn directory(&self) -> Result<PathBuf, Error> {
        let env = || std::env::var_os("OUT_DIR").map(PathBuf::from);
        self.out_dir
            .clone()
            .or_else(env)
            .ok_or_else(|| Error::config("OUT_DIR is not set: call this from a build script, or set `out_dir`"))
    }

    fn prost(&self) -> Result<prost_build::Config, Error> {
        let root = &self.root;
        let mut config = prost_build::Config::new();
        config
            .prost_path(format!("{root}::prost"))
            .prost_types_path(format!("{root}::prost_types"))
            .enable_type_names()
            .type_name_domain(["."], "type.googleapis.com")
            .bytes(&self.bytes)
            .btree_map(&self.btree_map);
        if let Some(name) = &self.include_file {
            config.include_file(name);
        }
        for (proto, rust) in &self.extern_paths {
            let is_relative = rust.contains("::") && !rust.starts_with("::") && !rust.starts_with("crate::");
            if is_relative {
                return Err(Error::config(format!(
                    "`extern_path` takes a path from `::` or `crate::` on, such as `::{rust}`, not `{rust}`"
                )));
            }
            config.extern_path(proto, rust);
        }
        for (path, attribute) in &self.type_attributes {
            config.type_attribute(path, attribute);
        }
        for (path, attribute) in &self.field_attributes {
            config.field_attribute(path, attribute);
        }
        Ok(config)
    }

    /// What makes the code of services, with no fields yet.
    fn generator(&self) -> Result<service::Generator, Error> {
        Ok(service::Generator {
            root: path(&self.root)?,
            client: self.client,
            server: self.server,
            // A type from elsewhere may have fields of any kind.
            owns_bytes: self.bytes.is_empty() && self.extern_paths.is_empty(),
            fields: field::Fields::default(),
            stub_attributes: attributes(&self.stub_attributes)?,
        })
    }
}

/// The root as tokens: a path, `crate::generated` as well as `::trirpc`.
fn path(root: &str) -> Result<TokenStream, Error> {
    let is_identifier = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    // Generated code stands in modules of several depths, so that a relative path cannot serve all of it.
    let path = root.strip_prefix("::").or_else(|| root.starts_with("crate::").then_some(root));
    match (path, root.parse()) {
        (Some(path), Ok(tokens)) if path.split("::").all(is_identifier) => Ok(tokens),
        _ => Err(Error::config(format!(
            "`root` takes a path from `::` or `crate::` on, such as `::trirpc`, not `{root}`"
        ))),
    }
}

fn attributes(list: &[String]) -> Result<TokenStream, Error> {
    list.iter()
        .map(|text| match text.parse::<TokenStream>() {
            Ok(tokens) if text.starts_with("#[") && text.ends_with(']') => Ok(tokens),
            _ => {
                Err(Error::config(format!("`stub_attribute` takes an attribute such as `#[cfg(test)]`, not `{text}`")))
            }
        })
        .collect()
}

/// The descriptors of `protos` and of all they import, imports first.
fn parse(protos: &[impl AsRef<Path>], includes: &[PathBuf]) -> Result<Vec<prost_types::FileDescriptorProto>, Error> {
    let failed = |error: protox::Error| Error::from_protox(&error, includes);
    let mut compiler = protox::Compiler::new(includes).map_err(failed)?;
    compiler.include_imports(true).include_source_info(true);
    for proto in protos.iter().map(AsRef::as_ref) {
        // Told before anything can fail, or cargo would not run the script again after a repair.
        rerun_if_changed(proto);
        if !proto.is_file() && !includes.iter().any(|include| include.join(proto).is_file()) {
            let searched: Vec<_> = includes.iter().map(|include| include.display().to_string()).collect();
            let message = format!("no such file, neither here nor in {}", searched.join(", "));
            return Err(Error::missing(proto, message));
        }
        compiler.open_file(proto).map_err(failed)?;
    }
    compiler.files().filter_map(|file| file.path()).for_each(rerun_if_changed);
    Ok(compiler.file_descriptor_set().file)
}

fn rerun_if_changed(path: &Path) {
    if std::env::var_os("OUT_DIR").is_some() {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}
