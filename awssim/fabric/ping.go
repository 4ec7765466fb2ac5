// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/multieni/multieni/awssim/namespace"
)

const (
	// pingTimeout ends a ping whose context has no deadline.
	pingTimeout = 2 * time.Second
	// pingInterval is the time between two echo requests of a ping.
	pingInterval = 200 * time.Millisecond
)

// ErrNoReply means that no echo reply came in time.
var ErrNoReply = errors.New("no reply")

// Ping sends ICMP echo requests from a network namespace (a path such as /run/netns/NAME), until a reply arrives, and
// returns its round-trip time. At the context's deadline, or after 2 s without one, it returns [ErrNoReply]. If from is
// invalid, the kernel chooses the source. It needs root, and does not need the program ping.
func Ping(ctx context.Context, in string, from, to netip.Addr) (time.Duration, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	took, err := ping(ctx, in, from, to)
	if err != nil {
		return 0, fmt.Errorf("ping %s from %s: %w", to, in, err)
	}
	return took, nil
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, pingTimeout)
}

func ping(ctx context.Context, in string, from, to netip.Addr) (time.Duration, error) {
	f := familyOf(to)
	if !from.IsValid() {
		from = f.any
	}
	space, err := namespace.Open(in)
	if err != nil {
		return 0, err
	}
	defer space.Close()
	var connection *icmp.PacketConn
	var failure error
	err = space.Do(func() { connection, failure = icmp.ListenPacket(f.network, from.String()) })
	if err := errors.Join(err, failure); err != nil {
		return 0, err
	}
	defer connection.Close()
	id := rand.IntN(1 << 16)
	for sequence := 0; ; sequence++ {
		took, err := f.echo(ctx, connection, to, &icmp.Echo{ID: id, Seq: sequence, Data: []byte("fabric")})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return took, err
		}
		if ctx.Err() != nil {
			return 0, ErrNoReply
		}
	}
}

// family has the constants of a version of ICMP.
type family struct {
	network        string
	any            netip.Addr
	request, reply icmp.Type
}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return family{"ip4:icmp", netip.IPv4Unspecified(), ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply}
	}
	return family{"ip6:ipv6-icmp", netip.IPv6Unspecified(), ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply}
}

// echo sends one request and waits for its reply. os.ErrDeadlineExceeded means that none came before the next is due.
func (f family) echo(ctx context.Context, c *icmp.PacketConn, to netip.Addr, echo *icmp.Echo) (time.Duration, error) {
	request, err := (&icmp.Message{Type: f.request, Body: echo}).Marshal(nil)
	if err != nil {
		return 0, err
	}
	sent := time.Now()
	until := sent.Add(pingInterval)
	if deadline, _ := ctx.Deadline(); deadline.Before(until) {
		until = deadline
	}
	if err := c.SetReadDeadline(until); err != nil {
		return 0, err
	}
	if _, err := c.WriteTo(request, &net.IPAddr{IP: to.AsSlice()}); err != nil {
		return 0, err
	}
	for buffer := make([]byte, 1500); ; {
		n, _, err := c.ReadFrom(buffer)
		if err != nil {
			return 0, err
		}
		reply, err := icmp.ParseMessage(f.request.Protocol(), buffer[:n])
		if err != nil || reply.Type != f.reply {
			continue
		}
		if body, is := reply.Body.(*icmp.Echo); is && body.ID == echo.ID && body.Seq == echo.Seq {
			return time.Since(sent), nil
		}
	}
}
