// Package cases holds the cases that every client runs against a server.
//
// The names are those of all other clients of this project. A case that a
// library does otherwise asserts what it does, and names it.
package cases

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"trirpc.test/peers/gen/echopb"
)

// Status is an RPC error in a neutral form.
type Status struct {
	Code    uint32
	Message string
	Details []*anypb.Any
}

// MD is metadata with lower-case keys; values of "-bin" keys are raw bytes.
type MD map[string][]string

// Chat is an open bidi call.
type Chat interface {
	Send(*echopb.SayRequest) error
	CloseSend() error
	Recv() (*echopb.SayReply, error) // io.EOF after status 0
}

// Client is what each library's adapter offers. Deadlines come with the context.
type Client interface {
	Say(context.Context, *echopb.SayRequest) (*echopb.SayReply, error)
	Collect(context.Context, []*echopb.SayRequest) (*echopb.CollectReply, error)
	Expand(context.Context, *echopb.ExpandRequest, func(*echopb.SayReply)) error
	Chat(context.Context) (Chat, error)
	Fail(context.Context, *echopb.FailRequest) (*echopb.SayReply, error)
	Sleep(context.Context, *echopb.SleepRequest) (*echopb.SayReply, error)
	Meta(context.Context, MD, *echopb.MetaRequest) (reply *echopb.MetaReply, head, trail MD, err error)
	// Unknown calls a method that does not exist.
	Unknown(ctx context.Context, service, method string) error
	// Health is the answer of Check: 1 is SERVING.
	Health(ctx context.Context, service string) (int32, error)
	// Watch is the first answer of Watch, which it then cancels.
	Watch(ctx context.Context, service string) (int32, error)
	// Compressed is the same client on the same connection, with gzip for its requests.
	Compressed() Client
	Status(error) Status
}

// Traits are what a library does otherwise than most; the text is its cell's note.
type Traits struct {
	// ASCIIOnly refuses a value that is not printable ASCII with this code.
	ASCIIOnly uint32
	// NoRequestGzip: its requests cannot be compressed; its replies can.
	NoRequestGzip string
	// LateEnvelope: its deadline may be told as 3 when it passes during a stream.
	LateEnvelope string
	// NoStreams: a wire that has unary calls only.
	NoStreams string
}

// Peer is a client under way through the cases.
type Peer struct {
	Client
	Traits
	stdin *bufio.Reader
}

// Options of every client.
type Options struct{ Addr, Server, Only string }

// Parse reads the flags that every client has.
func Parse(args []string) Options {
	var o Options
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	flags.StringVar(&o.Addr, "addr", "", "address of the server")
	flags.StringVar(&o.Server, "server", "trirpc", "whose server it is")
	flags.StringVar(&o.Only, "only", "", "prefix of the names of the cases to run")
	flags.Parse(args)
	return o
}

// Timeout is that of a call that must succeed, and of a whole case.
const Timeout = 20 * time.Second

const overLimit = 5 << 20

type outcome struct {
	note string
	err  error
}

func passed(err error) outcome { return outcome{err: err} }

type check struct {
	name string
	run  func(context.Context, *Peer) outcome
}

// Run makes all calls and prints a line a case; it returns the exit code.
func Run(c Client, o Options, t Traits) int {
	p := &Peer{Client: c, Traits: t, stdin: bufio.NewReader(os.Stdin)}
	code := 0
	for _, check := range checks {
		if !strings.HasPrefix(check.name, o.Only) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		result := check.run(ctx, p)
		cancel()
		switch {
		case result.err != nil:
			code = 1
			fmt.Printf("FAIL %s: %s\n", check.name, strings.Join(strings.Fields(result.err.Error()), " "))
		case result.note != "":
			fmt.Printf("PASS %s (%s)\n", check.name, result.note)
		default:
			fmt.Printf("PASS %s\n", check.name)
		}
	}
	return code
}

func want(ok bool, format string, a ...any) error {
	if ok {
		return nil
	}
	text := fmt.Sprintf(format, a...)
	return errors.New(text[:min(len(text), 400)])
}

// fails is nil if err has this code, and this message if one is given.
func (p *Peer) fails(err error, code uint32, message ...string) error {
	if err == nil {
		return fmt.Errorf("a reply, want code %d", code)
	}
	s := p.Status(err)
	if s.Code != code {
		return fmt.Errorf("code %d, want %d (%v)", s.Code, code, err)
	}
	return want(len(message) == 0 || s.Message == message[0], "message %q, want %q", s.Message, message)
}

// serves tells that the connection still works.
func (p *Peer) serves(ctx context.Context) error {
	m, err := p.Say(ctx, &echopb.SayRequest{Text: "after"})
	if err != nil {
		return fmt.Errorf("the call after it: %w", err)
	}
	return want(m.Text == "echo:after", "reply %v", m)
}

// expand collects a whole stream.
func (p *Peer) expand(ctx context.Context, q *echopb.ExpandRequest) ([]*echopb.SayReply, error) {
	var got []*echopb.SayReply
	err := p.Expand(ctx, q, func(m *echopb.SayReply) { got = append(got, m) })
	return got, err
}

// exchange sends one request of a bidi call and checks its reply.
func exchange(s Chat, q *echopb.SayRequest) error {
	if err := s.Send(q); err != nil {
		return err
	}
	m, err := s.Recv()
	if err != nil {
		return err
	}
	return want(m.Text == "echo:"+q.Text && string(m.Payload) == string(q.Payload), "reply to %q: %q", q.Text, m.Text)
}

// ended checks that a bidi call ends well once the client has.
func ended(s Chat) error {
	if err := s.CloseSend(); err != nil {
		return err
	}
	_, err := s.Recv()
	return want(errors.Is(err, io.EOF), "after half-close: %v", err)
}
