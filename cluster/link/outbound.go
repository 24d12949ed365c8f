package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	connectTimeout = time.Second
	pingInterval   = 300 * time.Millisecond // between pings
	pingTimeout    = time.Second
)

var (
	errNoMember = errors.New("no member at this address")
	errEnded    = errors.New("the peer ended the stream")
)

// outbound is the connection on which we send to one peer. It never retries: if it cannot be opened
// or breaks, it answers its queue with dead letters, and the next envelope to the address opens
// another.
type outbound struct {
	link    *Link
	address string
	outbox  outbox
	ctx     context.Context // ends when the connection is cut
	cancel  context.CancelCauseFunc
	conn    *grpc.ClientConn
	stream  remote.Remoting_ReceiveClient

	ended chan struct{} // closed when the peer has ended the stream
	clean bool          // the peer had read everything; set before ended is closed

	mu   sync.Mutex
	wire net.Conn
}

func newOutbound(l *Link, address string) *outbound {
	s := &outbound{link: l, address: address, ended: make(chan struct{})}
	s.outbox.wake = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// run writes posted envelopes until the connection is released and each is written or answered.
func (s *outbound) run() {
	err := s.open()
	if err != nil {
		s.fail(err)
	}
	for letters := s.outbox.take(nil); len(letters) > 0; letters = s.outbox.take(letters) {
		s.write(letters, err == nil)
	}
	if err != nil || !s.finish() {
		s.link.brokenStreams.add(s.address)
	}
	s.cut(errEnded)
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.link.endpoints.ended(s)
}

// open connects and waits for the peer's handshake.
func (s *outbound) open() (err error) {
	if !s.link.peers.reachable(s.address) {
		return errNoMember
	}
	creds := insecure.NewCredentials()
	if s.link.cfg.ClientTLS != nil {
		creds = newPerConnTLS(s.link.cfg.ClientTLS)
	}
	s.conn, err = grpc.NewClient(
		s.address,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(s.dial),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithConnectParams(
			grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: connectTimeout, MaxDelay: connectTimeout},
				MinConnectTimeout: connectTimeout,
			},
		),
	)
	if err != nil {
		return err
	}
	if s.stream, err = remote.NewRemotingClient(s.conn).Receive(s.ctx); err != nil {
		return err
	}
	s.link.goRun(s.ping)
	sys := s.link.cfg.System
	_ = s.stream.Send(
		&remote.RemoteMessage{
			MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
				ConnectionType: &remote.ConnectRequest_ServerConnection{
					ServerConnection: &remote.ServerConnection{MemberId: sys.ID, Address: sys.Address()},
				},
			}},
		},
	) // the stream reports the error below
	if _, err = s.stream.Recv(); err != nil {
		return err
	}
	s.link.goRun(s.read)
	return nil
}

// dial keeps the connection so that cut can close it: closing through gRPC waits a second for a
// silent peer.
func (s *outbound) dial(ctx context.Context, address string) (net.Conn, error) {
	wire, err := dialRetry(
		ctx,
		s.link.cfg.Runtime,
		func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) },
	)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		_ = wire.Close()
		return nil, context.Cause(s.ctx)
	}
	s.wire = wire
	return wire, nil
}

// cut closes the connection. Data that the peer has not read is lost.
func (s *outbound) cut(err error) {
	s.cancel(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil {
		_ = s.wire.Close()
	}
}

// fail cuts the connection. Unless it was released before, its address is reported as lost.
func (s *outbound) fail(err error) {
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	}
	s.cut(err)
	if s.link.endpoints.isActive(s) {
		s.link.broken.Warn().Err(err).Str("node", s.address).Msg("connection lost")
		s.link.terminate(s.address)
	}
}

// ping detects a silent peer, one that has stopped or is cut off. Any answer counts; nodes refuse
// this call.
func (s *outbound) ping() {
	rt := s.link.cfg.Runtime
	tick := rt.After(pingInterval)
	for {
		select {
		case <-tick:
			tick = rt.After(pingInterval)
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := rt.WithTimeout(
			metadata.AppendToOutgoingContext(s.ctx, nodeKey, s.link.cfg.System.Address()),
			pingTimeout,
		)
		var answer metadata.MD
		err := s.conn.Invoke(
			ctx,
			remote.Remoting_ListProcesses_FullMethodName,
			&remote.ListProcessesRequest{},
			&remote.ListProcessesResponse{},
			grpc.Trailer(&answer),
		)
		cancel()
		switch {
		case s.ctx.Err() != nil:
			return
		case status.Code(err) != codes.Unimplemented:
			s.cut(fmt.Errorf("%s does not answer: %w", s.address, err))
			return
		case s.link.brokenStreams.observe(s.address, answer):
			s.link.terminate(s.address)
		}
	}
}

// write sends envelopes, or answers them if the stream is broken or not connected.
func (s *outbound) write(letters []envelope, connected bool) {
	for len(letters) > 0 {
		batch, n := pack(letters)
		if !connected ||
			s.stream.Send(
				&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: batch}},
			) != nil {
			s.undeliverable(letters[:n])
		}
		letters = letters[n:]
	}
}

func (s *outbound) undeliverable(letters []envelope) {
	for _, l := range letters {
		if l.sender != nil {
			s.link.undeliverable(l.sender, actor.NewPID(s.address, l.target.Id))
		}
	}
}

// read waits for the end of the stream: after the handshake the peer sends nothing on it.
func (s *outbound) read() {
	var err error
	for err == nil {
		_, err = s.stream.Recv()
	}
	if s.clean = errors.Is(err, io.EOF); s.clean {
		err = errEnded
	}
	close(s.ended)
	s.fail(err)
}

// finish waits until the peer has read everything or the stream has failed, and reports whether it
// was read.
func (s *outbound) finish() bool {
	_ = s.stream.CloseSend() // it never fails; a failed stream has ended
	<-s.ended
	return s.clean
}
