//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command as Clap, value_parser};
use trirpc::Protocol;
use trirpc::server::InlineHandlers;
use trirpc_bench::echo::{Feed, Mode, Operation};
use trirpc_bench::gates::{Cell, Gates};
use trirpc_bench::load::{Io, Length, Load};

/// What the user asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Serve {
        addr: String,
        io: Io,
        cores: Option<usize>,
        busy_poll: Option<Duration>,
        inlines: InlineHandlers,
        lends: bool,
    },
    Load(Box<Load>),
    Gates(Gates),
    Cell(Cell),
    Growth,
}

/// Reads the command line; ends the process with a text for the user where it is wrong.
pub(crate) fn parse() -> Command {
    let matches = clap().get_matches();
    match matches.subcommand() {
        Some(("serve", given)) => {
            let inlines = match one::<String>(given, "inline").as_str() {
                "never" => InlineHandlers::Never,
                "always" => InlineHandlers::Always,
                _ => InlineHandlers::default(),
            };
            let (cores, lends) = (given.get_one("cores").copied(), given.get_flag("lend"));
            let busy_poll = busy_poll(given);
            Command::Serve { addr: one(given, "addr"), io: io(given), cores, busy_poll, inlines, lends }
        }
        Some(("load", given)) => Command::Load(Box::new(load(given))),
        Some(("gates", given)) => Command::Gates(gates(given)),
        Some(("growth", _)) => Command::Growth,
        Some(("cell", given)) => Command::Cell(one(given, "name")),
        _ => unreachable!("clap demands one of its subcommands"),
    }
}

fn clap() -> Clap {
    let addr = || Arg::new("addr").long("addr").value_name("ADDR").default_value("127.0.0.1:50051");
    Clap::new("trirpc-bench")
        .about("Benchmark and cost gates of trirpc")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Clap::new("serve")
                .about("Serve bench.Echo by one thread, or by one a core")
                .arg(addr().help("Where to listen"))
                .arg(io_arg())
                .arg(busy_poll_arg())
                .arg(lend_arg())
                .arg(
                    Arg::new("cores")
                        .long("cores")
                        .value_name("N")
                        .value_parser(value_parser!(usize))
                        .help("Event loops, each on a thread of its own; 0 for one a core"),
                )
                .arg(
                    Arg::new("inline")
                        .long("inline")
                        .default_value("quick")
                        .value_parser(PossibleValuesParser::new(["quick", "never", "always"]))
                        .help(
                            "Handlers that run where their connection is read; under an emulator the clock cannot tell",
                        ),
                ),
        )
        .subcommand(load_command(addr().help("The server")))
        .subcommand(gates_command())
        .subcommand(Clap::new("growth").about("Count instructions of a call with up to 10,000 streams open beside it"))
        .subcommand(
            Clap::new("cell")
                .about("Run one cell of the gates, as they do under callgrind")
                .arg(Arg::new("name").required(true).value_parser(cell_parser())),
        )
}

fn load_command(addr: Arg) -> Clap {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").default_value(default).value_parser(value_parser!(u32)).help(help)
    };
    let positive = |arg: Arg| arg.value_parser(value_parser!(u32).range(1..));
    let seconds = |name: &'static str, default: &'static str, help: &'static str| {
        let parser = |text: &str| {
            let seconds = text.parse().map_err(|error: std::num::ParseFloatError| error.to_string())?;
            Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
        };
        Arg::new(name).long(name).value_name("SECONDS").default_value(default).value_parser(parser).help(help)
    };
    let names = |name: &'static str, names: &[&'static str], help: &'static str| {
        let parser = PossibleValuesParser::new(names.iter().copied());
        Arg::new(name).long(name).default_value(names[0]).value_parser(parser).help(help)
    };
    Clap::new("load")
        .about("Call any server of bench.Echo by one thread and print what it costs as one line of JSON")
        .arg(addr)
        .arg(io_arg())
        .arg(busy_poll_arg())
        .arg(lend_arg())
        .arg(number("server-pid", "0", "Process of the server, to report its CPU time and allocations; 0 for none"))
        .arg(positive(number("conns", "1", "Connections")))
        .arg(positive(number("conc", "1", "Calls in flight, over all connections")))
        .arg(number("payload", "128", "Bytes of a message's payload"))
        .arg(names("mode", Mode::NAMES, "What an operation is"))
        .arg(names("protocol", &["grpc", "triple", "connect"], "Wire protocol of unary calls"))
        .arg(names("feed", Feed::NAMES, "Messages of a stream: at hand at once, or through a channel"))
        .arg(number("msgs", "128", "Messages a stream and direction"))
        .arg(number("calls", "0", "Measure so many operations, from the first one; 0 to go by time"))
        .arg(seconds("warm", "0.5", "Time before the measurement"))
        .arg(seconds("secs", "2", "Time of the measurement"))
}

fn lend_arg() -> Arg {
    let help = "Payloads are Bytes that lie where they were received, in place of vectors; a load of unary calls only";
    Arg::new("lend").long("lend").action(ArgAction::SetTrue).help(help)
}

fn io_arg() -> Arg {
    Arg::new("io")
        .long("io")
        .default_value(Io::NAMES[0])
        .value_parser(PossibleValuesParser::new(Io::NAMES))
        .help("Who watches the sockets: smol, or an event loop")
}

fn io(given: &ArgMatches) -> Io {
    one::<String>(given, "io").parse().expect("clap knows the names")
}

fn busy_poll_arg() -> Arg {
    Arg::new("busy-poll")
        .long("busy-poll")
        .value_name("MICROSECONDS")
        .value_parser(value_parser!(u32))
        .help("How long an event loop polls for news before it sleeps, at most; 0 for never")
}

/// None: as the event loop does by itself.
fn busy_poll(given: &ArgMatches) -> Option<Duration> {
    given.get_one::<u32>("busy-poll").map(|&micros| Duration::from_micros(micros.into()))
}

fn gates_command() -> Clap {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Clap::new("gates")
        .about("Count instructions, writes and allocations of a call, and compare them with what was recorded")
        .arg(
            Arg::new("baseline")
                .long("baseline")
                .value_name("FILE")
                .default_value("bench/gates/baseline.json")
                .value_parser(value_parser!(PathBuf))
                .help("The recorded costs"),
        )
        .arg(flag("refresh", "Record anew"))
        .arg(flag("require-valgrind", "Fail where there is no valgrind"))
        .arg(Arg::new("only").long("only").value_name("TEXT").help("Only cells whose name holds this"))
        .arg(
            Arg::new("profile")
                .long("profile")
                .value_name("N")
                .value_parser(value_parser!(u16))
                .help("Print where the instructions go: by crate, and the first N functions"),
        )
}

fn cell_parser() -> impl TypedValueParser<Value = Cell> {
    PossibleValuesParser::new(Cell::all().map(|cell| cell.name))
        .try_map(|name| Cell::named(&name).ok_or("there is no such cell"))
}

fn load(given: &ArgMatches) -> Load {
    let number = |name| one::<u32>(given, name);
    let text = |name| one::<String>(given, name);
    let mode = text("mode").parse().expect("clap knows the names");
    let feed = text("feed").parse().expect("clap knows the names");
    let protocol = match text("protocol").as_str() {
        "triple" => Protocol::Triple,
        "connect" => Protocol::Connect,
        _ => Protocol::Grpc,
    };
    let messages = number("msgs");
    let length = match number("calls") {
        0 => Length::Time { warm: one(given, "warm"), measured: one(given, "secs") },
        calls => Length::Calls(calls.into()),
    };
    Load {
        addr: text("addr"),
        server_pid: number("server-pid"),
        connections: number("conns") as usize,
        callers: number("conc") as usize,
        io: io(given),
        busy_poll: busy_poll(given),
        operation: Operation {
            mode,
            protocol,
            feed,
            messages,
            message: Operation::message(number("payload") as usize, messages),
        },
        length,
        lends: given.get_flag("lend"),
    }
}

fn gates(given: &ArgMatches) -> Gates {
    Gates {
        baseline: one(given, "baseline"),
        refresh: given.get_flag("refresh"),
        only: given.get_one("only").cloned(),
        profile: given.get_one::<u16>("profile").copied().map(usize::from),
        require_valgrind: given.get_flag("require-valgrind"),
    }
}

/// An argument that has a default or is required.
fn one<T: Clone + Send + Sync + 'static>(given: &ArgMatches, name: &str) -> T {
    given.get_one::<T>(name).cloned().expect("clap fills in the default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        clap().debug_assert();
    }

    #[test]
    fn a_load_is_what_the_drivers_of_a_benchmark_ask_for() {
        let line = "trirpc-bench load --addr 127.0.0.1:1 --server-pid 7 --secs 0.5 --warm 0.4 --payload 1024 --conns 2 \
                    --conc 10 --mode bidi --msgs 3 --feed chan";
        let matches = clap().try_get_matches_from(line.split_whitespace()).expect("valid");
        let load = load(matches.subcommand_matches("load").expect("load"));
        assert_eq!((load.addr.as_str(), load.server_pid, load.connections, load.callers), ("127.0.0.1:1", 7, 2, 10));
        assert_eq!((load.operation.mode, load.operation.feed), (Mode::Bidi, Feed::Channel));
        assert_eq!((load.operation.messages, load.operation.message.payload.len()), (3, 1024));
        let (warm, measured) = (Duration::from_millis(400), Duration::from_millis(500));
        assert_eq!(load.length, Length::Time { warm, measured });
    }

    #[test]
    fn an_operation_needs_a_caller() {
        assert!(clap().try_get_matches_from(["trirpc-bench", "load", "--conc", "0"]).is_err());
    }
}
