package link

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	clusterName     = "troupe"
	maxMessageBytes = 64 << 20
	handshakeWithin = 5 * time.Second
	// A peer that says nothing is asked after keepalive; a silent stream ends after twice that. gRPC takes no less.
	serverKeepalive = time.Second
	// How often another free port is tried where someone else takes it between the choice and the start.
	portAttempts = 5
)

// listen starts remote. Its address must be known before, and it panics where it can not listen.
func (l *Link) listen(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		host, port, advertise, err := choosePort(ctx, l.cfg.Listen, l.cfg.Advertise)
		if err != nil {
			return err
		}
		cfg := l.remoteConfig(host, port, advertise)
		l.cluster = cluster.New(l.cfg.System, cluster.Configure(clusterName, l.cfg.Provider, l.cfg.Lookup, cfg))
		l.cluster.Remote = remote.NewRemote(l.cfg.System, cfg)
		if err = start(l.cluster.Remote); err == nil {
			return nil
		}
		if _, asked, _ := net.SplitHostPort(l.cfg.Listen); asked != "0" || attempt == portAttempts {
			return fmt.Errorf("link: listen on %s: %w", cfg.Address(), err)
		}
	}
}

func start(r *remote.Remote) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			panic(p)
		}
	}()
	r.Start()
	return nil
}

// choosePort returns where to listen and what to tell others, with all ports known.
func choosePort(ctx context.Context, listen, advertise string) (host string, port int, told string, err error) {
	probe, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return "", 0, "", fmt.Errorf("link: %w: give another address for nodes to listen on", err)
	}
	defer probe.Close()
	port = probe.Addr().(*net.TCPAddr).Port
	host, _, _ = net.SplitHostPort(listen)
	if advertise == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return "", 0, "", fmt.Errorf("link: other nodes can not reach %s: say which host:port to advertise to them", listen)
		}
		advertise = net.JoinHostPort(host, "0")
	}
	toldHost, toldPort, err := net.SplitHostPort(advertise)
	if err != nil || toldHost == "" {
		return "", 0, "", fmt.Errorf("link: %q can not be advertised: it must be host:port", advertise)
	}
	if toldPort == "0" {
		toldPort = strconv.Itoa(port)
	}
	if net.ParseIP(host).To4() == nil && net.ParseIP(host) != nil {
		host = "[" + host + "]" // remote joins host and port as they are
	}
	return host, port, net.JoinHostPort(toldHost, toldPort), nil
}

func (l *Link) remoteConfig(host string, port int, advertise string) *remote.Config {
	server := []grpc.ServerOption{
		grpc.StreamInterceptor(l.accept), grpc.UnaryInterceptor(l.refuseCall), grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.ConnectionTimeout(handshakeWithin),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverKeepalive, Timeout: serverKeepalive}),
	}
	if l.cfg.ServerTLS != nil {
		server = append(server, grpc.Creds(credentials.NewTLS(l.cfg.ServerTLS)))
	}
	return remote.Configure(host, port, remote.WithAdvertisedHost(advertise), remote.WithServerOptions(server...))
}
