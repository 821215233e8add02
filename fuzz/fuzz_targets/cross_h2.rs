#![no_main]

#[global_allocator]
static ALLOCATOR: trirpc_fuzz::memory::ByOwner = trirpc_fuzz::memory::ByOwner;

libfuzzer_sys::fuzz_target!(|data: &[u8]| trirpc_fuzz::cross_h2(data));
