package natsd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

const (
	// DefaultMinFree is the default of Config.MinFree: enough for the writes of the store between
	// two checks.
	DefaultMinFree = 32 << 20

	diskCheckInterval = time.Second      // interval between checks
	maxRetryInterval  = 30 * time.Second // longest interval between restarts
)

// diskMonitor holds the last known state of the disk. It is safe for concurrent use.
type diskMonitor struct {
	folder  string
	minFree int64

	mu   sync.Mutex
	disk Disk
}

// Disk returns the last known state of the data folder.
func (s *Server) Disk() Disk {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return s.disk.disk
}

// checkWritable checks that the store can be written and has enough space.
func (cfg *Config) checkWritable() error {
	dir := cfg.StoreDir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("data folder %s: %w; set another with --data", dir, rootCause(err))
	}
	free, err := FreeBytes(dir)
	if err != nil {
		return fmt.Errorf("data folder %s: %w; set another with --data", dir, err)
	}
	if d := (Disk{Folder: dir, Free: free, Needed: cfg.minFree(), State: DiskLow}); free < d.Needed {
		return fmt.Errorf("%s; delete files there, or set another folder with --data", d)
	}
	probe := filepath.Join(dir, ".writable")
	if err := os.WriteFile(probe, []byte("probe"), 0o644); err != nil {
		return fmt.Errorf("data folder %s cannot be written: %w; set another with --data", dir, rootCause(err))
	}
	return os.Remove(probe)
}

func (cfg *Config) minFree() int64 {
	if cfg.MinFree > 0 {
		return cfg.MinFree
	}
	return DefaultMinFree
}

// watchDisk checks the disk until ctx ends. If the store no longer accepts writes, it restarts the
// server once there is space.
func (s *Server) watchDisk(ctx context.Context, cfg *Config) error {
	s.disk.folder, s.disk.minFree = cfg.StoreDir, cfg.minFree()
	if _, err := s.checkDisk(cfg); err != nil {
		return fmt.Errorf("data folder %s: %w", cfg.StoreDir, err)
	}
	s.loops.Go(func() {
		tick := time.NewTicker(diskCheckInterval)
		defer tick.Stop()
		var retry backoff
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				shouldRestart, err := s.checkDisk(cfg)
				if err != nil {
					cfg.Log.Warn().Err(err).Str("folder", cfg.StoreDir).Msg("cannot read free space of the data folder")
				}
				if !shouldRestart {
					retry = backoff{}
				} else if retry.due(now) {
					s.restart(cfg)
				}
			}
		}
	})
	return nil
}

// checkDisk updates the state of the disk, logs a change of it, and reports whether the server
// should be restarted.
func (s *Server) checkDisk(cfg *Config) (shouldRestart bool, err error) {
	free, err := FreeBytes(s.disk.folder)
	if err != nil {
		return false, err
	}
	s.disk.mu.Lock()
	before := s.disk.disk
	now, shouldRestart := before.next(s.disk.folder, free, s.disk.minFree, s.writeError())
	s.disk.disk = now
	s.disk.mu.Unlock()
	if now.State != before.State {
		line := cfg.Log.Error()
		if now.State == DiskOK {
			line = cfg.Log.Info()
		}
		if before.State != 0 || now.State != DiskOK {
			line.Int64("free", now.Free).Int64("needed", now.Needed).Msg(now.String())
		}
		if cfg.OnDiskChange != nil {
			cfg.OnDiskChange(now)
		}
	}
	return shouldRestart, nil
}

// writeError returns why the store accepts no writes, or "" if it accepts them. nats-server keeps a
// write error until the stream is opened again, and in a cluster it turns JetStream off.
func (s *Server) writeError() string {
	n := s.nats.current()
	if !n.JetStreamEnabled() {
		return "JetStream is off"
	}
	for _, e := range n.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") {
			return e.Error
		}
	}
	return ""
}

// restart restarts the server with the store as it is on disk. Enabling JetStream again is not
// enough: a stream that is not loaded yet would appear to be missing, and clients would create it
// again. If the folder cannot be written yet, the server keeps running, because clients can still
// communicate through it.
func (s *Server) restart(cfg *Config) {
	s.reload.Lock()
	defer s.reload.Unlock()
	if err := cfg.checkWritable(); err != nil {
		cfg.Log.Error().Err(err).Msg("opening the store failed; retrying")
		return
	}
	cfg.Log.Warn().Msg("restarting this node's NATS server to open the store; clients will reconnect")
	s.nats.stop()
	if err := s.nats.start(); err != nil {
		cfg.Log.Error().Err(err).Msg("opening the store failed; retrying")
	}
}

// FreeBytes returns the free space in bytes of the file system that holds a folder.
func FreeBytes(folder string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, fmt.Errorf("free space: %w", err)
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}
