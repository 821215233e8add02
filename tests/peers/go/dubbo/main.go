// dubbo-peer is a dubbo-go server and client of the Echo service over Triple,
// connected directly, without a registry.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/dubbogo/gost/log/logger"

	// What an application gets from dubbo.apache.org/dubbo-go/v3/imports, less registries and the like.
	_ "dubbo.apache.org/dubbo-go/v3/cluster/cluster/failover"
	_ "dubbo.apache.org/dubbo-go/v3/cluster/loadbalance/random"
	_ "dubbo.apache.org/dubbo-go/v3/filter/accesslog"
	_ "dubbo.apache.org/dubbo-go/v3/filter/echo"
	_ "dubbo.apache.org/dubbo-go/v3/filter/exec_limit"
	_ "dubbo.apache.org/dubbo-go/v3/filter/generic"
	_ "dubbo.apache.org/dubbo-go/v3/filter/graceful_shutdown"
	_ "dubbo.apache.org/dubbo-go/v3/filter/token"
	_ "dubbo.apache.org/dubbo-go/v3/filter/tps"
	_ "dubbo.apache.org/dubbo-go/v3/filter/tps/limiter"
	_ "dubbo.apache.org/dubbo-go/v3/filter/tps/strategy"
	_ "dubbo.apache.org/dubbo-go/v3/protocol/triple"
	_ "dubbo.apache.org/dubbo-go/v3/protocol/triple/health"
	_ "dubbo.apache.org/dubbo-go/v3/protocol/triple/reflection"
	_ "dubbo.apache.org/dubbo-go/v3/proxy/proxy_factory"

	"trirpc.test/peers/cases"
)

func main() {
	logger.SetLoggerLevel("fatal") // even "error" prints a stack for every failed call
	if len(os.Args) < 2 || os.Args[1] != "client" {
		addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
		flag.Parse()
		log.Fatal(serve(*addr))
	}
	args := os.Args[2:]
	if len(args) > 0 && args[0] == "triple" {
		o := cases.Parse(args[1:])
		os.Exit(cases.Run(newTriple(o.Addr), o, cases.Traits{NoStreams: "Triple's own framing has unary calls only: 415, which the client tells as UNKNOWN"}))
	}
	o := cases.Parse(args)
	c, err := newClient(o.Addr)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(cases.Run(c, o, cases.Traits{
		NoRequestGzip: "a dubbo-go application cannot compress its requests",
		LateEnvelope:  "dubbo-go's client may tell its deadline as INVALID_ARGUMENT, an incomplete envelope",
	}))
}
