package natsd

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrStore says that nats-server does not start from the files of its store.
var ErrStore = errors.New("JetStream does not start from its files")

const readyPoll = 20 * time.Millisecond

// start starts the server and returns once it takes connections and has JetStream.
func (s *Server) start(log *logger, dir string) error {
	log.fatal = make(chan string, 1)
	s.server.SetLogger(log, false, false)
	panicked := make(chan any, 1)
	go func() {
		defer func() {
			if reason := recover(); reason != nil {
				panicked <- reason
			}
		}()
		s.server.Start()
	}()
	for deadline := time.Now().Add(startWithin); ; {
		ready := s.server.ReadyForConnections(readyPoll)
		select {
		case reason := <-panicked:
			// The server holds its locks and cannot be stopped; it has not listened yet.
			return fmt.Errorf("nats-server panicked in %s: %v: %w", dir, reason, ErrStore)
		case text := <-log.fatal:
			s.Stop()
			if strings.Contains(text, "JetStream") {
				return fmt.Errorf("nats-server in %s: %s: %w", dir, text, ErrStore)
			}
			return fmt.Errorf("nats-server: %s", text)
		default:
		}
		switch {
		case ready && s.server.JetStreamEnabled():
			return nil
		case ready:
			s.Stop()
			return fmt.Errorf("nats-server in %s has no JetStream: %w", dir, ErrStore)
		case time.Now().After(deadline):
			go s.Stop() // it may read a damaged file for ever
			return fmt.Errorf("nats-server in %s was not ready within %s; look for an earlier log line. Where the machine "+
				"is not busy, its files are damaged: move the folder jetstream away, and the store is restored from its copy",
				dir, startWithin)
		}
	}
}
