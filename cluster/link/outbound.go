package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	connectWithin = time.Second
	askEvery      = 300 * time.Millisecond // whether the peer lives
	answerWithin  = time.Second
)

var (
	errNoMember = errors.New("no member lives there")
	errEnded    = errors.New("the peer ended the stream")
)

// outbound is the stream on which remote writes to one peer. To remote it always connects, and never refuses a message: one
// that it can not deliver it answers. A broken one shows only in RecvMsg, upon which remote drops its endpoint, so that the
// next message opens another.
type outbound struct {
	grpc.ClientStream // nil where it could not be opened; remote only sends, receives and closes
	link              *Link
	address           string
	conn              *grpc.ClientConn
	ctx               context.Context
	cancel            context.CancelCauseFunc

	outbox    outbox
	written   chan struct{} // closed when the outbox is empty for good
	err       error         // why there is no stream; set before the first RecvMsg returns
	greeted   bool          // the first RecvMsg has returned
	announced chan struct{} // closed when remote has heard that the endpoint is connected: one lost before would stay
	announce  func()
	ended     chan struct{} // closed when no more comes from the peer
	clean     bool          // it ended because the peer had read everything; set before ended is closed
	quiet     atomic.Bool   // remote need not be told that it ended
	released  atomic.Bool   // remote has dropped the endpoint

	mu   sync.Mutex
	wire net.Conn
}

// open is a client interceptor. It dials a connection of its own in the place of remote's.
func (l *Link) open(_ context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s := &outbound{link: l, address: cc.Target(), announced: make(chan struct{}), ended: make(chan struct{}), written: make(chan struct{})}
	s.outbox.wake = make(chan struct{}, 1)
	s.announce = sync.OnceFunc(func() { close(s.announced) })
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	l.opened(s)
	if s.err = s.connect(desc, method); s.err != nil {
		s.fail(s.err)
		close(s.written)
		return s, nil
	}
	l.running.Go(s.ask)
	l.running.Go(s.write)
	return s, nil
}

func (s *outbound) connect(desc *grpc.StreamDesc, method string) (err error) {
	if !s.link.roster.reachable(s.address) {
		return errNoMember
	}
	creds := insecure.NewCredentials()
	if s.link.cfg.ClientTLS != nil {
		creds = credentials.NewTLS(s.link.cfg.ClientTLS)
	}
	s.conn, err = grpc.NewClient(s.address, grpc.WithTransportCredentials(creds), grpc.WithContextDialer(s.dial),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: connectWithin, MaxDelay: connectWithin}, MinConnectTimeout: connectWithin}))
	if err != nil {
		return err
	}
	s.ClientStream, err = s.conn.NewStream(s.ctx, desc, method)
	return err
}

// dial keeps the connection at hand: gRPC's own way of closing one waits a second for a silent peer.
func (s *outbound) dial(ctx context.Context, address string) (net.Conn, error) {
	wire, err := new(net.Dialer).DialContext(ctx, "tcp", address)
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

// fail cuts the connection. What the peer has not read is lost.
func (s *outbound) fail(err error) {
	s.link.losses.add(s.address)
	s.cut(err)
}

func (s *outbound) cut(err error) {
	s.cancel(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil {
		_ = s.wire.Close()
	}
}

// abort cuts the connection to a peer that is gone. Whoever calls it terminates the endpoint as well.
func (s *outbound) abort() {
	s.quiet.Store(true)
	s.fail(errNoMember)
}

// ask notices a peer that is silent: stopped, or cut off. Every answer will do; nodes refuse this call.
func (s *outbound) ask() {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.ctx, nodeKey, s.link.cfg.System.Address()), answerWithin)
		var answer metadata.MD
		err := s.conn.Invoke(ctx, remote.Remoting_ListProcesses_FullMethodName, &remote.ListProcessesRequest{}, &remote.ListProcessesResponse{}, grpc.Trailer(&answer))
		cancel()
		switch {
		case s.ctx.Err() != nil:
			return
		case status.Code(err) != codes.Unimplemented:
			s.fail(fmt.Errorf("%s does not answer: %w", s.address, err))
			return
		case s.link.losses.told(s.address, answer):
			s.link.terminate(s.address)
		}
	}
}

// SendMsg never fails: see outbound.
func (s *outbound) SendMsg(m any) error {
	batch := m.(*remote.RemoteMessage).GetMessageBatch()
	switch {
	case batch != nil && s.err == nil:
		s.outbox.put(batch)
	case batch != nil:
		s.undeliverable(batch)
	case s.err == nil:
		_ = s.ClientStream.SendMsg(m) // that it failed is seen by who waits for the greeting
	}
	return nil
}

// write sends what is in the outbox until remote has closed it.
func (s *outbound) write() {
	defer close(s.written)
	for open := true; open; {
		_, open = <-s.outbox.wake
		for batch := s.outbox.take(); batch != nil; batch = s.outbox.take() {
			if s.ClientStream.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: batch}}) != nil {
				s.undeliverable(batch)
			}
		}
	}
}

func (s *outbound) undeliverable(batch *remote.MessageBatch) {
	for _, e := range batch.Envelopes {
		if e.Sender == 0 {
			continue
		}
		sender := batch.Senders[e.Sender-1]
		s.link.undeliverable(&actor.PID{Address: sender.Address, Id: sender.Id, RequestId: e.SenderRequestId}, actor.NewPID(s.address, batch.Targets[e.Target]))
	}
}

// RecvMsg reads the peer's greeting first. After that nothing comes but the end.
func (s *outbound) RecvMsg(m any) error {
	if !s.greeted {
		s.greeted = true
		return s.greeting(m.(*remote.RemoteMessage))
	}
	err := s.err
	if err == nil {
		if err = s.ClientStream.RecvMsg(m); err == nil {
			return nil
		}
	}
	s.clean = s.err == nil && errors.Is(err, io.EOF)
	close(s.ended)
	<-s.announced
	if s.quiet.Load() { // by the end of the stream remote understands that we have ended it
		return io.EOF
	}
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	} else if s.clean {
		err = errEnded
	}
	s.link.broken.Warn().Err(err).Str("node", s.address).Msg("connection lost")
	return err
}

func (s *outbound) greeting(m *remote.RemoteMessage) error {
	if s.err == nil {
		if s.err = s.ClientStream.RecvMsg(m); s.err == nil {
			return nil
		}
		s.fail(s.err)
	}
	m.MessageType = &remote.RemoteMessage_ConnectResponse{ConnectResponse: &remote.ConnectResponse{}}
	return nil
}

// CloseSend is called when remote's writer has stopped.
func (s *outbound) CloseSend() error {
	s.quiet.Store(true)
	close(s.outbox.wake)
	<-s.written
	if s.finish() {
		s.cut(errEnded)
	} else {
		s.fail(errEnded)
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.link.closed(s)
	if !s.released.Load() { // the writer crashed: its endpoint must not stay
		s.link.terminate(s.address)
	}
	return nil
}

// finish waits until the peer has read everything, or is given up. It reports which.
func (s *outbound) finish() bool {
	if s.err != nil || s.ClientStream.CloseSend() != nil {
		return false
	}
	select {
	case <-s.ended:
		return s.clean
	case <-s.ctx.Done():
		return false
	}
}
