package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/reply"
)

const (
	// maxTries bounds how many ports or folders are tried.
	maxTries = 100
	// membersBucket is the bucket of a cluster's member records.
	membersBucket = "troupe-members"
	// detectTimeout bounds the wait for a NATS server to show that nodes use it: they may be
	// starting.
	detectTimeout = time.Second
)

// lockDataDir locks the data folder, until the returned file is closed. If neither name nor folder
// is set and a running node holds the default folder, it takes the next free one.
func (s *settings) lockDataDir() (lock *os.File, err error) {
	lock, err = lockData(s.Data)
	if s.given.Name != "" || s.given.Data != "" {
		return lock, err
	}
	first := s.Name
	for n := 2; errors.Is(err, errHeld) && n < maxTries; n++ {
		s.Name = fmt.Sprintf("%s-%d", first, n)
		if s.Data, err = defaultData(s.Name); err != nil {
			return nil, err
		}
		lock, err = lockData(s.Data)
	}
	if err == nil && s.Name != first {
		s.addNote("%s is already running, so this node is %s.", first, s.Name)
	}
	return lock, err
}

// addNote adds a line to the banner.
func (s *settings) addNote(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// pickAddresses picks the listen addresses. An address that is set must be free; a default moves to
// the next free port. If a cluster serves NATS at the default address, the node joins it.
func (s *settings) pickAddresses(ctx context.Context, login []nats.Option) error {
	if s.given.HTTP == "" {
		if err := s.listenHTTP(); err != nil {
			return err
		}
	}
	if s.NATSRoutes != "" && s.given.NATSClusterListen == "" {
		if err := s.useNextFree(&s.NATSClusterListen, "the NATS cluster"); err != nil {
			return err
		}
	}
	if s.Join == "" && s.given.NATSListen == "" {
		if err := s.joinOrServeNATS(ctx, login); err != nil {
			return err
		}
	}
	listeners := s.nodeListeners()
	if s.MetricsListen != "" {
		listeners = append(listeners, listener{"--metrics-listen", s.MetricsListen})
	}
	if s.httpListener == nil {
		listeners = append(listeners, listener{"--http", s.HTTP})
	}
	for _, l := range listeners {
		if err := tryListen(l.flag, l.addr); err != nil {
			return err
		}
	}
	return nil
}

// listenHTTP listens for HTTP on the next free port and keeps the listener open, so that a node
// that starts at the same time picks another port.
func (s *settings) listenHTTP() error {
	for range maxTries {
		if err := s.useNextFree(&s.HTTP, "HTTP"); err != nil {
			return err
		}
		var err error
		if s.httpListener, err = net.Listen("tcp", s.HTTP); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return fmt.Errorf("no free port up to %s; choose one with --http", s.HTTP)
}

// useNextFree moves addr to the next free port.
func (s *settings) useNextFree(addr *string, what string) error {
	free, err := nextFree(*addr)
	if err == nil && free != *addr {
		s.addNote("%s is in use, so %s is on %s.", *addr, what, free)
	}
	*addr = free
	return err
}

// nextFree returns addr with the first free port from its own on.
func nextFree(addr string) (string, error) {
	var err error
	for range maxTries {
		if err = tryAddress(addr); !errors.Is(err, syscall.EADDRINUSE) {
			return addr, err
		}
		addr = nextPort(addr)
	}
	return addr, fmt.Errorf("%d ports up to %s are in use: %w", maxTries, addr, err)
}

// nextPort returns addr with its port incremented.
func nextPort(addr string) string {
	host, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(text) // validated with the other options
	return net.JoinHostPort(host, strconv.Itoa(port+1))
}

// joinOrServeNATS joins the cluster whose NATS server is at the default port or one of the next
// ports, or serves NATS on the first free one.
func (s *settings) joinOrServeNATS(ctx context.Context, login []nats.Option) error {
	usual := s.NATSListen
	for range maxTries {
		err := tryAddress(s.NATSListen)
		switch {
		case err == nil && s.NATSListen != usual:
			s.addNote("%s is in use, so NATS is on %s.", usual, s.NATSListen)
			return nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return err
		}
		url := "nats://" + s.NATSListen
		if s.NATSRoutes == "" {
			is, err := isTroupe(ctx, url, login)
			if is {
				s.addNote("Joined the cluster at %s.", url)
				s.Join, s.NATSListen, s.NATSUsers = url, "", ""
				return nil
			}
			if err != nil {
				s.addNote("%s", err)
			}
		}
		s.NATSListen = nextPort(s.NATSListen)
	}
	return fmt.Errorf("%d ports from %s on are in use; choose one with --nats-listen, or join a cluster with --join",
		maxTries, usual)
}

// isTroupe reports whether nodes use the NATS server at a URL. It returns an error if a NATS server
// is there and refuses this node.
func isTroupe(ctx context.Context, url string, login []nats.Option) (bool, error) {
	conn, err := nats.Connect(url, append(login,
		nats.Name("troupe up"), nats.CustomInboxPrefix(reply.PeerInbox), nats.Timeout(detectTimeout))...)
	if isRefused(err) {
		return false, fmt.Errorf("the NATS server at %s refuses this node: %w; "+
			"to join it, use --nats-nkey, --nats-creds or --tls-cert", url, err)
	}
	if err != nil {
		return false, nil // not a NATS server
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := js.KeyValue(ctx, membersBucket); err == nil {
			return true, nil
		}
		if _, err := conn.RequestWithContext(ctx, "$SRV.PING.troupe", nil); err == nil {
			return true, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(detectTimeout / 20):
		}
	}
	return false, nil
}

// isRefused reports whether a NATS server answered but refused the credentials or the TLS
// handshake.
func isRefused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrSecureConnWanted) ||
		err != nil && strings.Contains(err.Error(), "tls: ")
}

// instance returns the random identifier of a data folder, which it creates on first use.
func instance(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	b, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(b)); id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("data folder %s: %w", dir, err)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	id := hex.EncodeToString(random[:])
	if err := os.WriteFile(path, []byte(id+"\n"), 0o640); err != nil {
		return "", fmt.Errorf("data folder %s: %w; choose another with --data", dir, err)
	}
	return id, nil
}
