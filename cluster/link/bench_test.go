package link_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"troupe/cluster/link"
	"troupe/messages"
)

// bareStream opens a stream to a plain gRPC service that receives TokensEmitted. With answer set
// the service echoes each message.
func bareStream(b *testing.B, answer bool) grpc.ClientStream {
	b.Helper()
	desc := grpc.StreamDesc{
		StreamName:    "Tokens",
		ServerStreams: true,
		ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			for {
				m := &messages.TokensEmitted{}
				if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if answer {
					if err := s.SendMsg(m); err != nil {
						return err
					}
				}
			}
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(
		&grpc.ServiceDesc{ServiceName: "bare", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}},
		struct{}{},
	)
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	stream, err := conn.NewStream(context.Background(), &desc, "/bare/Tokens")
	if err != nil {
		b.Fatal(err)
	}
	return stream
}

func token(stream, i int) *messages.TokensEmitted {
	return &messages.TokensEmitted{
		RequestId:   fmt.Sprintf("request-%02d", stream),
		Incarnation: 1,
		FirstIndex:  uint32(i),
		Tokens:      []uint32{uint32(i)},
	}
}

// compareToBare reports how fast the link is, as a fraction of a bare stream that does the same.
func compareToBare(b *testing.B, link func(), bare func()) {
	b.Helper()
	b.ResetTimer()
	link()
	took := b.Elapsed()
	b.StopTimer()
	start := time.Now()
	bare()
	b.ReportMetric(float64(time.Since(start))/float64(took), "of-bare-gRPC")
}

// inRealTime gives a node the runtime that it has in production.
func inRealTime(c *link.Config) { c.Runtime = nil }

// BenchmarkTell sends the tokens of 64 streams from one node to as many sessions on another until
// all have arrived.
func BenchmarkTell(b *testing.B) {
	for _, streams := range []int{1, 64} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			x, y := start(b, inRealTime), start(b, inRealTime)
			join(x, y)
			got, all := atomic.Int64{}, make(chan struct{})
			var sessions []*actor.PID
			for i := range streams {
				pid, _ := y.Root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) {
					if _, ok := ctx.Message().(*messages.TokensEmitted); ok && got.Add(1) == int64(b.N) {
						close(all)
					}
				}), fmt.Sprintf("session-%d", i))
				sessions = append(sessions, actor.NewPID(y.Address(), pid.Id))
			}
			stream := bareStream(b, false)
			compareToBare(b, func() {
				var senders sync.WaitGroup
				for s, to := range sessions {
					senders.Go(func() {
						for i := s; i < b.N; i += streams {
							x.Root.Send(to, token(s, i))
						}
					})
				}
				senders.Wait()
				<-all
			}, func() {
				for i := range b.N {
					if err := stream.SendMsg(token(i%streams, i)); err != nil {
						b.Fatal(err)
					}
				}
				_ = stream.CloseSend()
				_ = stream.RecvMsg(&messages.TokensEmitted{})
			})
		})
	}
}

// BenchmarkAsk waits for each answer before the next request.
func BenchmarkAsk(b *testing.B) {
	x, y := start(b, inRealTime), start(b, inRealTime)
	join(x, y)
	_, err := y.Root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*messages.TokensEmitted); ok {
			ctx.Respond(m)
		}
	}), "echo")
	if err != nil {
		b.Fatal(err)
	}
	to, stream := y.pid("echo"), bareStream(b, true)
	compareToBare(b, func() {
		for i := range b.N {
			if _, err := x.Root.RequestFuture(to, token(0, i), timeout).Result(); err != nil {
				b.Fatal(err)
			}
		}
	}, func() {
		for i := range b.N {
			if err := errors.Join(stream.SendMsg(token(0, i)), stream.RecvMsg(&messages.TokensEmitted{})); err != nil {
				b.Fatal(err)
			}
		}
	})
}
