// Package echo holds the rules of the test service (the comments of echo.proto)
// without any RPC library, so that every server here behaves the same.
package echo

import (
	"context"
	"fmt"
	"net"
	"sort"
	"strings"
	"time"

	"trirpc.test/peers/gen/echopb"
)

// Name is the full service name.
const Name = "trirpc.test.v1.Echo"

// ChatFailCode is the code that a "fail:" message ends a Chat with.
const ChatFailCode = 9

// Listening says on stdout where a server listens.
func Listening(addr net.Addr) { fmt.Println("listening on", addr) }

// Say answers one request.
func Say(r *echopb.SayRequest) *echopb.SayReply {
	p := r.GetPayload()
	if n := r.GetReplySize(); n > 0 {
		p = make([]byte, n)
	}
	return &echopb.SayReply{Text: "echo:" + r.GetText(), Payload: p, SequenceId: r.GetSequenceId()}
}

// ChatFailure tells whether a Chat request asks for an error, and its message.
func ChatFailure(r *echopb.SayRequest) (string, bool) {
	return strings.CutPrefix(r.GetText(), "fail:")
}

// Collector sums up a Collect call.
type Collector struct {
	texts []string
	bytes uint64
}

func (c *Collector) Add(r *echopb.SayRequest) {
	c.texts = append(c.texts, r.GetText())
	c.bytes += uint64(len(r.GetPayload()))
}

func (c *Collector) Reply() *echopb.CollectReply {
	return &echopb.CollectReply{Count: uint32(len(c.texts)), PayloadBytes: c.bytes, Texts: strings.Join(c.texts, ",")}
}

// Expand calls send for every reply that the request asks for.
func Expand(ctx context.Context, r *echopb.ExpandRequest, send func(*echopb.SayReply) error) error {
	for i := uint32(0); i < r.GetCount(); i++ {
		if i > 0 && r.GetIntervalMs() > 0 {
			if err := pause(ctx, r.GetIntervalMs()); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		m := &echopb.SayReply{Text: fmt.Sprintf("expand:%d", i), SequenceId: int64(i)}
		if r.GetSize() > 0 {
			m.Payload = make([]byte, r.GetSize())
		}
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// Sleep is the method: it says on stdout when the call ends before its time.
func Sleep(ctx context.Context, r *echopb.SleepRequest) (*echopb.SayReply, error) {
	if err := pause(ctx, r.GetMillis()); err != nil {
		fmt.Println("dropped Sleep")
		return nil, err
	}
	return &echopb.SayReply{Text: "slept"}, nil
}

// pause waits, or returns the context's error if that ends first.
func pause(ctx context.Context, millis uint32) error {
	t := time.NewTimer(time.Duration(millis) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Meta works out what the Meta method sends back. md has lower-case keys; raw
// turns one value of a "-bin" key into its bytes. The values of head and trail
// stay as they were in md.
func Meta(r *echopb.MetaRequest, md map[string][]string, raw func(string) []byte) (reply *echopb.MetaReply, head, trail map[string][]string) {
	head, trail = map[string][]string{}, map[string][]string{}
	reply = &echopb.MetaReply{}
	keys := make([]string, 0, len(md))
	for k := range md {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		e := &echopb.MetaEntry{Key: k}
		for _, v := range md[k] {
			if strings.HasSuffix(k, "-bin") {
				e.BinValues = append(e.BinValues, raw(v))
			} else {
				e.Values = append(e.Values, strings.ToValidUTF8(v, "\uFFFD"))
			}
		}
		reply.Seen = append(reply.Seen, e)
		if rest, ok := strings.CutPrefix(k, "x-echo-"); ok {
			head["x-head-"+rest] = md[k]
			trail["x-trail-"+rest] = md[k]
		}
	}
	if n := r.GetReplySize(); n > 0 {
		reply.Payload = make([]byte, n)
	}
	return reply, head, trail
}
