// Runs h2spec against a server, or against a client that it starts for each case with a URL as its last argument:
//
//	h2spec server PORT
//	h2spec client FIRST-PORT SECTIONS COMMAND…
//
// SECTIONS are as "client/1,client/6.5"; each case of theirs has a port of its own, from the first one up. Strict mode.
// The last line counts the cases: "146 tests, 146 passed, 0 skipped, 0 failed".
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
)

func main() {
	if len(os.Args) < 3 || os.Args[1] == "client" && len(os.Args) < 5 {
		fail("usage: h2spec server PORT | h2spec client FIRST-PORT SECTIONS COMMAND…")
	}
	port, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err)
	}
	c := &config.Config{Host: "127.0.0.1", Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true}
	switch os.Args[1] {
	case "server":
		c.Port = port
		_, err = h2spec.Run(c)
	case "client":
		c.FromPort, c.Sections, c.Exec = port, strings.Split(os.Args[3], ","), strings.Join(os.Args[4:], " ")
		err = h2spec.RunClientSpec(c)
	default:
		fail("neither `server` nor `client`")
	}
	if err != nil {
		fail(err)
	}
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, "h2spec:", reason)
	os.Exit(1)
}
