// Package loop is the closed loop of the Go clients, with the arguments and the line of JSON of `trirpc-bench load`.
package loop

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Options are the arguments.
type Options struct {
	Addr                                  string
	ServerPid, Conns, Conc, Payload, Msgs int
	Calls                                 int64
	Mode                                  string
	Warm, Secs                            float64
}

// Parse reads the arguments behind `client`.
func Parse(args []string) Options {
	var o Options
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	flags.StringVar(&o.Addr, "addr", "127.0.0.1:50051", "the server")
	flags.IntVar(&o.ServerPid, "server-pid", 0, "its process")
	flags.IntVar(&o.Conns, "conns", 1, "connections")
	flags.IntVar(&o.Conc, "conc", 1, "operations in flight, over all connections")
	flags.IntVar(&o.Payload, "payload", 128, "bytes of a message's payload")
	flags.IntVar(&o.Msgs, "msgs", 128, "messages a stream and direction")
	flags.Int64Var(&o.Calls, "calls", 0, "operations to measure; 0 to go by time")
	flags.StringVar(&o.Mode, "mode", "unary", "unary or bidi")
	flags.String("feed", "", "ignored: a message is sent when it is there")
	flags.Float64Var(&o.Warm, "warm", 0.5, "seconds before the measurement")
	flags.Float64Var(&o.Secs, "secs", 2, "seconds of the measurement")
	flags.Parse(args)
	return o
}

// Message is the payload of every message.
func (o Options) Message() []byte {
	payload := make([]byte, o.Payload)
	if len(payload) >= 4 {
		binary.BigEndian.PutUint32(payload, uint32(o.Msgs))
	}
	return payload
}

// usage is what both processes have used so far.
type usage struct {
	at             time.Time
	client, server time.Duration
	calls, msgs    int64
	memory         runtime.MemStats
}

// cpu is the CPU time of a process: its clock, as clock_getcpuclockid(3) names it.
func cpu(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	var t syscall.Timespec
	clock := int64(int32(^pid<<3 | 2))
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0
	}
	return time.Duration(t.Nano())
}

// Run runs operation(connection) by o.Conc callers and prints the line. An operation returns how many messages it carried
// each way.
func Run(peer string, o Options, operation func(connection int) (int, error)) {
	var calls, msgs, started int64
	var stop, measuring int32
	latencies := make([][]time.Duration, o.Conc)
	var callers sync.WaitGroup
	call := func(caller int) {
		defer callers.Done()
		for atomic.LoadInt32(&stop) == 0 && (o.Calls == 0 || atomic.AddInt64(&started, 1) <= o.Calls) {
			start := time.Now()
			carried, err := operation(caller % o.Conns)
			if err != nil {
				if atomic.LoadInt32(&stop) == 0 {
					log.Fatal(err)
				}
				return
			}
			atomic.AddInt64(&calls, 1)
			atomic.AddInt64(&msgs, int64(carried))
			if atomic.LoadInt32(&measuring) == 1 {
				latencies[caller] = append(latencies[caller], time.Since(start))
			}
		}
	}
	used := func() (u usage) {
		runtime.ReadMemStats(&u.memory)
		u.at, u.client, u.server = time.Now(), cpu(os.Getpid()), cpu(o.ServerPid)
		u.calls, u.msgs = atomic.LoadInt64(&calls), atomic.LoadInt64(&msgs)
		return u
	}
	callers.Add(o.Conc)
	before := used()
	if o.Calls > 0 {
		measuring = 1
	}
	for caller := 0; caller < o.Conc; caller++ {
		go call(caller)
	}
	if o.Calls > 0 {
		callers.Wait()
	} else {
		time.Sleep(time.Duration(o.Warm * 1e9))
		before = used()
		atomic.StoreInt32(&measuring, 1)
		time.Sleep(time.Duration(o.Secs * 1e9))
	}
	after := used()
	atomic.StoreInt32(&stop, 1)
	callers.Wait()
	report(peer, o, before, after, latencies)
}

func report(peer string, o Options, before, after usage, latencies [][]time.Duration) {
	var all []time.Duration
	for _, some := range latencies {
		all = append(all, some...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	quantile := func(q float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return float64(all[int(q*float64(len(all)-1))]) / 1e3
	}
	n, seconds := float64(after.calls-before.calls), after.at.Sub(before.at).Seconds()
	if n == 0 {
		log.Fatal("no operation ended in the time of the measurement")
	}
	line, err := json.Marshal(map[string]interface{}{
		"peer": peer, "mode": o.Mode, "payload": o.Payload, "conns": o.Conns, "conc": o.Conc,
		"calls": n, "secs": seconds, "qps": n / seconds, "msgs_s": float64(after.msgs-before.msgs) / seconds,
		"p50_us": quantile(0.5), "p90_us": quantile(0.9), "p99_us": quantile(0.99), "p999_us": quantile(0.999),
		"cli_cpu_us": float64(after.client-before.client) / n / 1e3,
		"srv_cpu_us": float64(after.server-before.server) / n / 1e3,
		"cli_allocs": float64(after.memory.Mallocs-before.memory.Mallocs) / n,
		"cli_bytes":  float64(after.memory.TotalAlloc-before.memory.TotalAlloc) / n,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}
