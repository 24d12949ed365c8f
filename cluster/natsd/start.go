package natsd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ErrStore reports that nats-server cannot start from the files of its store.
var ErrStore = errors.New("JetStream cannot start from its files")

// readyPoll is how often run looks whether the server listens.
const readyPoll = 2 * time.Millisecond

// run runs a server with options, and returns once it accepts connections and has JetStream.
func (r *instance) run(s *server.Server, opts *server.Options) error {
	dir := opts.StoreDir
	select {
	case <-r.log.fatal: // drop the message of an earlier server
	default:
	}
	s.SetLogger(r.log, false, false)
	panicked := make(chan any, 1)
	go func() {
		defer func() {
			if reason := recover(); reason != nil {
				panicked <- reason
			}
		}()
		s.Start()
	}()
	for deadline := time.Now().Add(startTimeout); ; {
		// ReadyForConnections looks without a pause for so short a time, unless the server is not to listen.
		ready := (opts.DontListen || s.Addr() != nil) && s.ReadyForConnections(readyPoll)
		if !ready {
			time.Sleep(readyPoll)
		}
		select {
		case reason := <-panicked:
			// The server holds its locks and cannot be stopped. It does not listen yet.
			r.hung.Store(s)
			return fmt.Errorf("nats-server panicked in %s: %v: %w", dir, reason, ErrStore)
		case text := <-r.log.fatal:
			r.stop()
			if strings.Contains(text, "JetStream") {
				return fmt.Errorf("nats-server in %s: %s: %w", dir, text, ErrStore)
			}
			return fmt.Errorf("nats-server: %s", text)
		default:
		}
		switch {
		case ready && s.JetStreamEnabled():
			return nil
		case ready:
			r.stop()
			return fmt.Errorf("nats-server in %s has no JetStream: %w", dir, ErrStore)
		case time.Now().After(deadline):
			r.hung.Store(s)
			go s.Shutdown() // it may read a damaged file forever
			return fmt.Errorf("nats-server in %s was not ready within %s; see the log. If the machine is not busy, "+
				"its files are damaged: move the folder jetstream away, and the store is restored from its copy",
				dir, startTimeout)
		}
	}
}
