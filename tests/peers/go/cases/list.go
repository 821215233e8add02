package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"trirpc.test/peers/gen/echopb"
)

const service = "trirpc.test.v1.Echo"

var checks = []check{
	{"unary", unary},
	{"message-of-0-bytes", message0},
	{"message-of-1-byte", payload(1)},
	{"message-of-64-kib", payload(64 << 10)},
	{"message-of-3900000-bytes", payload(3_900_000)},
	{"request-over-limit", requestOverLimit},
	{"reply-over-limit", replyOverLimit},
	{"client-stream", streaming(clientStream)},
	{"client-stream-of-none", streaming(clientStreamOfNone)},
	{"client-stream-of-1000", streaming(clientStreamOf1000)},
	{"server-stream", streaming(serverStream)},
	{"server-stream-of-none", streaming(serverStreamOfNone)},
	{"server-stream-of-1000", streaming(serverStreamOf1000)},
	{"server-stream-error-after-two", streaming(serverStreamErrorAfterTwo)},
	{"server-stream-error-at-once", streaming(serverStreamErrorAtOnce)},
	{"bidi-ping-pong", streaming(bidiPingPong)},
	{"bidi-error-midway", streaming(bidiErrorMidway)},
	{"status-codes", statusCodes},
	{"status-messages", statusMessages},
	{"status-details", statusDetails},
	{"deadline-of-unary", deadlineOfUnary},
	{"deadline-of-stream", streaming(deadlineOfStream)},
	{"deadline-met", deadlineMet},
	{"cancel-unary", cancelUnary},
	{"cancel-server-stream", streaming(cancelServerStream)},
	{"cancel-bidi", streaming(cancelBidi)},
	{"metadata-text", metadata(MD{"a": {"one", "two", "one"}, "comma": {"v,w", "x"}, "symbols": {"!#$%&'()*+-./:;<=>?@[]^_`{|}~"}})},
	{"metadata-binary", metadata(MD{"b-bin": {"\x00\x01\xff>", "second", everyByte()}, "one-bin": {"\x80"}})},
	{"metadata-empty-values", metadata(MD{"none": {""}, "none-bin": {""}, "mixed-bin": {"", "x", ""}})},
	{"metadata-of-7-kib", metadata(MD{"long": {strings.Repeat("v", 2300)}})},
	{"metadata-non-ascii", nonASCII},
	{"unknown-method", unknown(service, "NoSuch")},
	{"unknown-service", unknown("no.such.Service", "Method")},
	{"health-check", healthCheck},
	{"health-watch", streaming(healthWatch)},
	{"calls-1000-at-100", calls1000At100},
	{"gzip-unary", gzipUnary},
	{"gzip-stream", streaming(gzipStream)},
	{"server-restart", serverRestart},
}

func unary(ctx context.Context, p *Peer) outcome {
	m, err := p.Say(ctx, &echopb.SayRequest{Text: "hello", Payload: []byte("\x00\x01\xff"), SequenceId: -7})
	if err != nil {
		return passed(err)
	}
	ok := m.Text == "echo:hello" && string(m.Payload) == "\x00\x01\xff" && m.SequenceId == -7
	return passed(want(ok, "reply %v", m))
}

func message0(ctx context.Context, p *Peer) outcome {
	m, err := p.Say(ctx, &echopb.SayRequest{})
	if err != nil {
		return passed(err)
	}
	if err := want(m.Text == "echo:", "reply %v", m); err != nil {
		return passed(err)
	}
	m, err = p.Fail(ctx, &echopb.FailRequest{})
	if err != nil {
		return passed(err)
	}
	return passed(want(m.Text == "" && len(m.Payload) == 0, "reply %v", m))
}

func payload(size int) func(context.Context, *Peer) outcome {
	return func(ctx context.Context, p *Peer) outcome {
		sent := make([]byte, size)
		for i := range sent {
			sent[i] = byte(i % 251 * 31)
		}
		m, err := p.Say(ctx, &echopb.SayRequest{Payload: sent})
		if err != nil {
			return passed(err)
		}
		return passed(want(bytes.Equal(sent, m.Payload), "a payload of %d bytes came back changed", size))
	}
}

func requestOverLimit(ctx context.Context, p *Peer) outcome {
	_, err := p.Say(ctx, &echopb.SayRequest{Payload: make([]byte, overLimit), ReplySize: 1})
	return passed(errors.Join(p.fails(err, 8), p.serves(ctx)))
}

func replyOverLimit(ctx context.Context, p *Peer) outcome {
	_, err := p.Say(ctx, &echopb.SayRequest{ReplySize: overLimit})
	return passed(errors.Join(p.fails(err, 8), p.serves(ctx)))
}

// streaming asserts that a wire without streams refuses to open one.
func streaming(run func(context.Context, *Peer) outcome) func(context.Context, *Peer) outcome {
	return func(ctx context.Context, p *Peer) outcome {
		if p.NoStreams == "" {
			return run(ctx, p)
		}
		_, err := p.expand(ctx, &echopb.ExpandRequest{})
		return outcome{p.NoStreams, errors.Join(p.fails(err, 2), p.serves(ctx))}
	}
}

func clientStream(ctx context.Context, p *Peer) outcome {
	var requests []*echopb.SayRequest
	for _, text := range []string{"a", "b", "c"} {
		requests = append(requests, &echopb.SayRequest{Text: text, Payload: []byte("xy")})
	}
	m, err := p.Collect(ctx, requests)
	if err != nil {
		return passed(err)
	}
	return passed(want(m.Count == 3 && m.PayloadBytes == 6 && m.Texts == "a,b,c", "reply %v", m))
}

func clientStreamOfNone(ctx context.Context, p *Peer) outcome {
	m, err := p.Collect(ctx, nil)
	if err != nil {
		return passed(err)
	}
	return passed(want(m.Count == 0, "reply %v", m))
}

func clientStreamOf1000(ctx context.Context, p *Peer) outcome {
	requests := slices.Repeat([]*echopb.SayRequest{{Payload: make([]byte, 1000)}}, 1000)
	m, err := p.Collect(ctx, requests)
	if err != nil {
		return passed(err)
	}
	return passed(want(m.Count == 1000 && m.PayloadBytes == 1_000_000, "reply %d, %d bytes", m.Count, m.PayloadBytes))
}

func serverStream(ctx context.Context, p *Peer) outcome {
	got, err := p.expand(ctx, &echopb.ExpandRequest{Count: 3, Size: 4})
	if err != nil {
		return passed(err)
	}
	if len(got) != 3 {
		return passed(fmt.Errorf("%d replies", len(got)))
	}
	for i, m := range got {
		ok := m.Text == fmt.Sprint("expand:", i) && m.SequenceId == int64(i) && len(m.Payload) == 4
		if err := want(ok, "reply %d is %v", i, m); err != nil {
			return passed(err)
		}
	}
	return outcome{}
}

func serverStreamOfNone(ctx context.Context, p *Peer) outcome {
	got, err := p.expand(ctx, &echopb.ExpandRequest{})
	return passed(errors.Join(err, want(len(got) == 0, "%d replies", len(got))))
}

func serverStreamOf1000(ctx context.Context, p *Peer) outcome {
	got, err := p.expand(ctx, &echopb.ExpandRequest{Count: 1000, Size: 1000})
	if err != nil {
		return passed(err)
	}
	for i, m := range got {
		if m.SequenceId != int64(i) {
			return passed(fmt.Errorf("reply %d in place %d", m.SequenceId, i))
		}
	}
	return passed(want(len(got) == 1000, "%d replies", len(got)))
}

func serverStreamErrorAfterTwo(ctx context.Context, p *Peer) outcome {
	got, err := p.expand(ctx, &echopb.ExpandRequest{Count: 2, EndCode: 5, EndMessage: "gone"})
	return passed(errors.Join(want(len(got) == 2, "%d replies before the error", len(got)), p.fails(err, 5, "gone")))
}

func serverStreamErrorAtOnce(ctx context.Context, p *Peer) outcome {
	_, err := p.expand(ctx, &echopb.ExpandRequest{EndCode: 7, EndMessage: "no"})
	return passed(p.fails(err, 7, "no"))
}

func bidiPingPong(ctx context.Context, p *Peer) outcome {
	s, err := p.Chat(ctx)
	if err != nil {
		return passed(err)
	}
	for i := range 50 {
		if err := exchange(s, &echopb.SayRequest{Text: strconv.Itoa(i)}); err != nil {
			return passed(err)
		}
	}
	return passed(ended(s))
}

func bidiErrorMidway(ctx context.Context, p *Peer) outcome {
	s, err := p.Chat(ctx)
	if err != nil {
		return passed(err)
	}
	if err := exchange(s, &echopb.SayRequest{Text: "ok"}); err != nil {
		return passed(err)
	}
	if err := s.Send(&echopb.SayRequest{Text: "fail:enough"}); err != nil {
		return passed(err)
	}
	_, err = s.Recv()
	return passed(p.fails(err, 9, "enough"))
}

func statusCodes(ctx context.Context, p *Peer) outcome {
	var bad []error
	for code := uint32(1); code <= 16; code++ {
		_, err := p.Fail(ctx, &echopb.FailRequest{Code: code, Message: "as asked"})
		bad = append(bad, p.fails(err, code, "as asked"))
	}
	return passed(errors.Join(bad...))
}

func statusMessages(ctx context.Context, p *Peer) outcome {
	var bad []error
	for _, text := range []string{"", "100% a+b & c=d %zz %41", "naïve 中文 🚀", "line1\nline2\ttab\r\nend"} {
		_, err := p.Fail(ctx, &echopb.FailRequest{Code: 5, Message: text})
		bad = append(bad, p.fails(err, 5, text))
	}
	return passed(errors.Join(bad...))
}

func statusDetails(ctx context.Context, p *Peer) outcome {
	var sent []*anypb.Any
	for i := range int32(2) {
		detail, err := anypb.New(&echopb.FailDetail{Reason: "reason", Number: i + 1})
		if err != nil {
			return passed(err)
		}
		sent = append(sent, detail)
	}
	_, err := p.Fail(ctx, &echopb.FailRequest{Code: 9, Message: "with details", Details: sent})
	if err := p.fails(err, 9, "with details"); err != nil {
		return passed(err)
	}
	got := p.Status(err).Details
	same := slices.EqualFunc(sent, got, func(a, b *anypb.Any) bool {
		return a.MessageName() == b.MessageName() && bytes.Equal(a.Value, b.Value)
	})
	return passed(want(same, "details %v", got))
}

func deadlineOfUnary(ctx context.Context, p *Peer) outcome {
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := p.Sleep(short, &echopb.SleepRequest{Millis: 5000})
	took := time.Since(start)
	inTime := want(took > 250*time.Millisecond && took < 2*time.Second, "ended after %v", took)
	return passed(errors.Join(p.fails(err, 4), inTime, p.serves(ctx)))
}

func deadlineOfStream(ctx context.Context, p *Peer) outcome {
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	got, err := p.expand(short, &echopb.ExpandRequest{Count: 1000, IntervalMs: 100})
	late := p.fails(err, 4)
	if p.LateEnvelope != "" && late != nil && strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		late = p.fails(err, 3)
	}
	return outcome{p.LateEnvelope, errors.Join(late, want(len(got) >= 1 && len(got) < 10, "%d replies within the deadline", len(got)))}
}

func deadlineMet(ctx context.Context, p *Peer) outcome {
	m, err := p.Sleep(ctx, &echopb.SleepRequest{Millis: 50})
	if err != nil {
		return passed(err)
	}
	return passed(want(m.Text == "slept", "reply %v", m))
}

func cancelUnary(ctx context.Context, p *Peer) outcome {
	short, cancel := context.WithCancel(ctx)
	time.AfterFunc(200*time.Millisecond, cancel)
	_, err := p.Sleep(short, &echopb.SleepRequest{Millis: 5000})
	return passed(errors.Join(p.fails(err, 1), p.serves(ctx)))
}

func cancelServerStream(ctx context.Context, p *Peer) outcome {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	err := p.Expand(short, &echopb.ExpandRequest{Count: 1000, Size: 10_000, IntervalMs: 1}, func(*echopb.SayReply) { cancel() })
	return passed(errors.Join(p.fails(err, 1), p.serves(ctx)))
}

func cancelBidi(ctx context.Context, p *Peer) outcome {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := p.Chat(short)
	if err != nil {
		return passed(err)
	}
	if err := exchange(s, &echopb.SayRequest{Text: "one"}); err != nil {
		return passed(err)
	}
	cancel()
	_, err = s.Recv()
	return passed(errors.Join(p.fails(err, 1), p.serves(ctx)))
}

// comesBack checks that values return in headers and trailers, in order.
func (p *Peer) comesBack(ctx context.Context, values MD) (*echopb.MetaReply, error) {
	sent := MD{}
	for name, all := range values {
		sent["x-echo-"+name] = all
	}
	m, head, trail, err := p.Meta(ctx, sent, &echopb.MetaRequest{})
	if err != nil {
		return nil, err
	}
	var bad []error
	for name, all := range values {
		bad = append(bad,
			want(slices.Equal(head["x-head-"+name], all), "header x-head-%s: %q", name, head["x-head-"+name]),
			want(slices.Equal(trail["x-trail-"+name], all), "trailer x-trail-%s: %q", name, trail["x-trail-"+name]))
	}
	return m, errors.Join(bad...)
}

func metadata(values MD) func(context.Context, *Peer) outcome {
	return func(ctx context.Context, p *Peer) outcome {
		m, err := p.comesBack(ctx, values)
		if err != nil {
			return passed(err)
		}
		seen := MD{}
		for _, e := range m.Seen {
			all := slices.Clone(e.Values)
			for _, value := range e.BinValues {
				all = append(all, string(value))
			}
			seen[e.Key] = all
		}
		for name, all := range values {
			if got := seen["x-echo-"+name]; !slices.Equal(got, all) {
				return passed(fmt.Errorf("seen x-echo-%s: %q", name, got))
			}
		}
		return outcome{}
	}
}

func nonASCII(ctx context.Context, p *Peer) outcome {
	_, err := p.comesBack(ctx, MD{"latin": {"na\xefve"}, "utf8": {"中文"}})
	if p.ASCIIOnly != 0 {
		return outcome{"refused by the client itself: not printable ASCII", errors.Join(p.fails(err, p.ASCIIOnly), p.serves(ctx))}
	}
	return passed(err)
}

func everyByte() string {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	return string(all[:])
}

func unknown(service, method string) func(context.Context, *Peer) outcome {
	return func(ctx context.Context, p *Peer) outcome {
		return passed(p.fails(p.Unknown(ctx, service, method), 12))
	}
}

func healthCheck(ctx context.Context, p *Peer) outcome {
	for _, name := range []string{"", service} {
		if status, err := p.Health(ctx, name); err != nil || status != 1 {
			return passed(fmt.Errorf("health of %q: %d, %v", name, status, err))
		}
	}
	_, err := p.Health(ctx, "nobody")
	return passed(p.fails(err, 5))
}

func healthWatch(ctx context.Context, p *Peer) outcome {
	status, err := p.Watch(ctx, service)
	return passed(errors.Join(err, want(status == 1, "status %d", status)))
}

func calls1000At100(ctx context.Context, p *Peer) outcome {
	var workers sync.WaitGroup
	failures := make(chan error, 100)
	for worker := range 100 {
		workers.Go(func() {
			for call := range 10 {
				text := strconv.Itoa(worker*10 + call)
				m, err := p.Say(ctx, &echopb.SayRequest{Text: text, Payload: make([]byte, 128)})
				if err == nil {
					err = want(m.Text == "echo:"+text, "reply to %s: %s", text, m.Text)
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(failures)
	return passed(<-failures)
}

// ask wants something of whoever runs this, and waits for a line on standard input.
func (p *Peer) ask(what string) error {
	fmt.Println(what)
	if _, err := p.stdin.ReadString('\n'); errors.Is(err, io.EOF) {
		return fmt.Errorf("nobody answered `%s` on standard input", what)
	}
	return nil
}

// A payload of zeros each way. The run measures that few bytes pass.
func gzipUnary(ctx context.Context, p *Peer) outcome {
	if err := p.ask("measure"); err != nil {
		return passed(err)
	}
	sent := make([]byte, 1<<20)
	m, err := p.Compressed().Say(ctx, &echopb.SayRequest{Payload: sent})
	if err != nil {
		return passed(err)
	}
	return outcome{p.NoRequestGzip, want(bytes.Equal(sent, m.Payload), "payload changed")}
}

func gzipStream(ctx context.Context, p *Peer) outcome {
	if err := p.ask("measure"); err != nil {
		return passed(err)
	}
	s, err := p.Compressed().Chat(ctx)
	if err != nil {
		return passed(err)
	}
	for i, size := range []int{256 << 10, 0, 1, 256 << 10} {
		if err := exchange(s, &echopb.SayRequest{Text: strconv.Itoa(i), Payload: make([]byte, size)}); err != nil {
			return passed(err)
		}
	}
	return outcome{p.NoRequestGzip, ended(s)}
}

// serverRestart sees whoever runs this kill the server and start another.
func serverRestart(ctx context.Context, p *Peer) outcome {
	if err := p.serves(ctx); err != nil {
		return passed(err)
	}
	if err := p.ask("restart"); err != nil {
		return passed(err)
	}
	for {
		_, err := p.Say(ctx, &echopb.SayRequest{Text: "again"})
		if err == nil {
			return passed(p.serves(ctx))
		}
		if err := p.fails(err, 14); err != nil {
			return passed(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
