//! Every fuzz target's corpus, replayed without a fuzzer. `fuzz/run.sh` finds new inputs; what it found stays here.

use std::fs;

use trirpc_fuzz::TARGETS;
use trirpc_fuzz::memory::ByOwner;
use trirpc_tests::sources::{files, root};

/// For the targets that look at memory.
#[global_allocator]
static ALLOCATOR: ByOwner = ByOwner;

/// A corpus in the repository stays small.
const MAX_CORPUS: u64 = 200 * 1024;

#[test]
fn every_corpus_replays_without_a_finding() {
    for (name, target) in TARGETS {
        let inputs = files(&root().join("fuzz/corpus").join(name), |_| true);
        assert!(!inputs.is_empty(), "{name} has a corpus");
        for input in inputs {
            // A finding names its input, whatever it panics with.
            struct Named<'a>(&'a str);
            impl Drop for Named<'_> {
                fn drop(&mut self) {
                    if std::thread::panicking() {
                        eprintln!("input: {}", self.0);
                    }
                }
            }
            let _named = Named(&input.display().to_string());
            target(&fs::read(&input).expect("readable input"));
        }
    }
}

#[test]
fn targets_binaries_and_corpora_belong_together() {
    let listed = |folder: &str| -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(root().join("fuzz").join(folder))
            .unwrap_or_else(|error| panic!("fuzz/{folder}: {error}"))
            .map(|entry| entry.expect("readable entry").path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let mut targets: Vec<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    targets.sort();
    assert_eq!(listed("fuzz_targets"), targets);
    assert_eq!(listed("corpus"), targets);
    for name in targets {
        let inputs = files(&root().join("fuzz/corpus").join(&name), |_| true);
        let size: u64 = inputs.iter().map(|input| fs::metadata(input).expect("readable input").len()).sum();
        assert!(size <= MAX_CORPUS, "the corpus of {name} has {size} bytes");
    }
}
