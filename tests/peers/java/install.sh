#!/usr/bin/env bash
# dubbo-java, with the versions of pom.xml: classes and lib, to be run with `java -cp classes:lib/*`. Maven fetches
# protoc and dubbo's plug-in for it. Sourced by ../install.sh.
set -euo pipefail

needs javac 'a JDK of version 17 or newer'
needs mvn 'Maven'
enter < <(cat "$here/java/pom.xml"; javac -version)

sources=("$proto" "$here"/java/src/main/*/*.properties "$here"/java/src/main/java/trirpc/test/peer/*.java)
if ! current built "${sources[@]}"; then
  say "building dubbo-java's peer in $folder"
  rm -rf "$folder/src" "$folder/proto"
  mkdir -p "$folder/proto"
  cp -r "$here/java/pom.xml" "$here/java/src" "$folder"
  cp "$proto" "$folder/proto"
  logged mvn --quiet --batch-mode --no-transfer-progress --file "$folder/pom.xml" package
  stamped built "${sources[@]}"
fi
