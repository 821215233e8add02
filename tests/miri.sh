#!/usr/bin/env bash
# The modules of core that read octets, under Miri: undefined behaviour in them or in what they stand on is found, and
# every overflow and index is checked. Minutes of work, so CI leaves it out. Arguments are filters of test names instead.
#
# Needs a nightly toolchain with the components miri and rust-src.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

filters=("$@")
if [ ${#filters[@]} -eq 0 ]; then
    filters=(buf::tests::arena buf::tests::recv call::base64 call::decimal call::details call::json call::percent
        hpack::decoder hpack::integer http::name http2::frame)
fi
# Searches are for compiled code: each takes one case here, and those that are long by themselves are left out.
export QUICKCHECK_TESTS=${QUICKCHECK_TESTS:-1} MIRIFLAGS=-Zmiri-disable-isolation
cargo +nightly miri test -p trirpc-core --lib -- "${filters[@]}" \
    --skip any_script --skip any_split --skip any_octet --skip random --skip every_pair
