//! The command line of `tri`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command as Clap};
use trirpc::core::Config;

use crate::demo::Dialect;

/// What the user asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Demo { json: bool, dialects: Vec<Dialect> },
    Serve { addr: String, config: Box<Config>, fallback: bool },
}

/// Why there is no command: what to print, and where.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    /// `--help`, `--version`.
    Asked(String),
    /// Nothing was asked for: the help.
    Nothing(String),
    /// A usage error, in one line.
    Usage(String),
}

const ABOUT: &str = "Triple and gRPC from the command line";

const EXAMPLES: &str = "\
Examples:
  tri demo                          see every kind of call between a real client and server
  tri serve                         serve trirpc.test.v1.Echo on 127.0.0.1:50051
  tri serve --addr 0.0.0.0:8080     on another address";

const DEMO_ABOUT: &str = "Start a server and a client over TCP and show, call by call, what they do";

const DEMO_LONG: &str = "\
Start a server and a client over TCP on the loopback interface and show, call by call, what they do:
all four kinds of call with metadata, an error with details, a deadline that fires, a cancellation, all
of them in gRPC, and the unary ones in Triple's own dialect and in Connect; plain and by gzip.

Every line is checked against what it must be. The exit code is 0 if all are right, 1 if one is wrong.";

const DEMO_EXAMPLES: &str = "\
Examples:
  tri demo                          for a person
  tri demo --dialect triple         only what Triple's unary dialect shows
  tri demo --json                   for a machine: one JSON object a line
  tri demo --json | jq 'select(.ok | not)'";

const SERVE_ABOUT: &str = "Serve trirpc.test.v1.Echo and gRPC health, until Ctrl-C";

const SERVE_LONG: &str = "\
Serve the test service trirpc.test.v1.Echo (proto/idl/trirpc/test/v1/echo.proto) and grpc.health.v1.Health.

Prints `listening on ADDR` once it does. Ctrl-C or SIGTERM drains: health turns NOT_SERVING, no new
connection or call is taken, running calls may finish for `drain-timeout`; what is left is then cut off.
A second Ctrl-C ends it at once.";

const SERVE_EXAMPLES: &str = "\
Examples:
  tri serve                                       on 127.0.0.1:50051
  tri serve --addr 127.0.0.1:0                    on a port that the system chooses
  tri serve --addr unix:/tmp/echo.sock            on a Unix socket
  tri serve --fallback                            any other request gets a page, by curl too
  tri serve --set max-recv-message=67108864       messages of up to 64 MiB
  tri serve --set drain-timeout=5s --set max-concurrent-streams=1000";

/// Reads a command line, program name first.
pub(crate) fn parse<I, T>(args: I) -> Result<Command, Refusal>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = clap().try_get_matches_from(args).map_err(|error| refusal(&error))?;
    match matches.subcommand() {
        Some(("demo", demo)) => Ok(read_demo(demo)),
        Some(("serve", serve)) => read_serve(serve),
        _ => unreachable!("clap demands one of its subcommands"),
    }
}

fn clap() -> Clap {
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object a line");
    let dialect = Arg::new("dialect")
        .long("dialect")
        .value_name("NAME")
        .action(ArgAction::Append)
        .value_parser(Dialect::ALL.map(Dialect::name))
        .help("Show this dialect only; may be given again [default: all]");
    let addr = Arg::new("addr")
        .long("addr")
        .value_name("ADDR")
        .default_value("127.0.0.1:50051")
        .help("Where to listen: host:port or unix:path; port 0 lets the system choose");
    let set = Arg::new("set")
        .long("set")
        .value_name("NAME=VALUE")
        .action(ArgAction::Append)
        .help("Change a limit or timer of the connections; a wrong name lists all of them");
    let fallback = Arg::new("fallback")
        .long("fallback")
        .action(ArgAction::SetTrue)
        .help("Answer every request that is of no service with 200 and a few lines of text");
    Clap::new("tri")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .arg_required_else_help(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Clap::new("demo").about(DEMO_ABOUT).long_about(DEMO_LONG).after_help(DEMO_EXAMPLES).arg(dialect).arg(json),
        )
        .subcommand(
            Clap::new("serve")
                .about(SERVE_ABOUT)
                .long_about(SERVE_LONG)
                .after_help(SERVE_EXAMPLES)
                .arg(addr)
                .arg(set)
                .arg(fallback),
        )
}

fn read_demo(matches: &ArgMatches) -> Command {
    let wanted: Vec<&str> = matches.get_many::<String>("dialect").into_iter().flatten().map(String::as_str).collect();
    let is_wanted = |dialect: &Dialect| wanted.is_empty() || wanted.contains(&dialect.name());
    let dialects = Dialect::ALL.into_iter().filter(is_wanted).collect();
    Command::Demo { json: matches.get_flag("json"), dialects }
}

fn read_serve(matches: &ArgMatches) -> Result<Command, Refusal> {
    let addr = matches.get_one::<String>("addr").cloned().unwrap_or_default();
    let mut config = Box::new(Config::default());
    for pair in matches.get_many::<String>("set").into_iter().flatten() {
        let wrong = |reason: &str| Refusal::Usage(format!("--set {pair}: {reason}"));
        let (name, value) = pair.split_once('=').ok_or_else(|| wrong("expected NAME=VALUE"))?;
        config.set(name, value).map_err(|error| wrong(&error.to_string()))?;
    }
    Ok(Command::Serve { addr, config, fallback: matches.get_flag("fallback") })
}

/// clap's error as one line; its usage block is a `--help` away.
fn refusal(error: &clap::Error) -> Refusal {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return Refusal::Asked(text),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return Refusal::Nothing(text),
        _ => {}
    }
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let what = lines.next().unwrap_or_default();
    let mut line = what.strip_prefix("error: ").unwrap_or(what).to_owned();
    for tip in lines.filter_map(|line| line.strip_prefix("tip: ")) {
        line.push_str("; ");
        line.push_str(tip);
    }
    line.push_str(" (see --help)");
    Refusal::Usage(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(args: &str) -> String {
        match parse(args.split(' ')) {
            Err(Refusal::Usage(text)) => text,
            other => panic!("{args}: {other:?}"),
        }
    }

    #[test]
    fn the_commands_have_the_defaults_that_their_help_promises() {
        let dialects = Dialect::ALL.to_vec();
        assert_eq!(parse(["tri", "demo"]), Ok(Command::Demo { json: false, dialects: dialects.clone() }));
        assert_eq!(parse(["tri", "demo", "--json"]), Ok(Command::Demo { json: true, dialects }));
        let addr = "127.0.0.1:50051".to_owned();
        assert_eq!(
            parse(["tri", "serve"]),
            Ok(Command::Serve { addr: addr.clone(), config: Box::default(), fallback: false })
        );
        let with = Command::Serve { addr, config: Box::default(), fallback: true };
        assert_eq!(parse(["tri", "serve", "--fallback"]), Ok(with));
    }

    #[test]
    fn dialects_are_shown_in_their_order_and_once() {
        let args = ["tri", "demo", "--dialect", "triple", "--dialect=grpc", "--dialect", "triple"];
        let dialects = vec![Dialect::Grpc, Dialect::Triple];
        assert_eq!(parse(args), Ok(Command::Demo { json: false, dialects }));
        assert!(usage("tri demo --dialect grcp").contains("'grpc'"));
    }

    #[test]
    fn set_reaches_the_configuration() {
        let args = ["tri", "serve", "--set", "max-recv-message=9", "--set=drain-timeout=5s"];
        let Ok(Command::Serve { config, .. }) = parse(args) else { panic!("refused") };
        assert_eq!(config.max_recv_message, 9);
        assert_eq!(config.drain_timeout, Some(std::time::Duration::from_secs(5)));
    }

    #[test]
    fn a_wrong_argument_is_answered_by_one_line_that_helps() {
        for (args, parts) in [
            ("tri sreve", &["unrecognized subcommand 'sreve'", "'serve'"][..]),
            ("tri serve --adr x", &["unexpected argument '--adr'", "'--addr'"]),
            ("tri serve --addr", &["value is required for '--addr <ADDR>'"]),
            ("tri demo extra", &["unexpected argument 'extra'"]),
            ("tri serve --set max-recv-message", &["expected NAME=VALUE"]),
            ("tri serve --set max-recv-message=huge", &["`huge` is no value of `max-recv-message`", "whole number"]),
            ("tri serve --set x=1", &["unknown setting `x`", "max-recv-message"]),
        ] {
            let text = usage(args);
            assert!(!text.contains('\n'), "{text}");
            parts.iter().for_each(|part| assert!(text.contains(part), "{args}: {text}"));
        }
    }

    #[test]
    fn every_help_text_has_examples() {
        for args in [&["tri", "--help"][..], &["tri", "demo", "--help"], &["tri", "serve", "--help"]] {
            let Err(Refusal::Asked(text)) = parse(args) else { panic!("{args:?}") };
            assert!(text.contains("Examples:"), "{text}");
        }
        let Err(Refusal::Nothing(text)) = parse(["tri"]) else { panic!("no help") };
        assert!(text.contains("Examples:"), "{text}");
        let Err(Refusal::Asked(version)) = parse(["tri", "--version"]) else { panic!("no version") };
        assert!(version.starts_with("tri "), "{version}");
    }
}
