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

	"troupe/core/units"
)

const (
	// DefaultMinFree is the free space that the data folder needs, for what the store writes between two checks.
	DefaultMinFree = 32 << 20

	diskCheckInterval = time.Second      // between two checks
	maxRetryInterval  = 30 * time.Second // the longest time between two attempts to start the server again
)

// diskMonitor is what is known of the disk. It is safe for concurrent use.
type diskMonitor struct {
	folder  string
	minFree int64

	mu   sync.Mutex
	disk Disk
}

// Disk returns how the data folder is.
func (s *Server) Disk() Disk {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return s.disk.disk
}

// checkWritable makes sure that the store can be written, and has space.
func (cfg *Config) checkWritable() error {
	dir := cfg.StoreDir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("data directory %s: %w; give another with --data", dir, rootCause(err))
	}
	free, err := FreeBytes(dir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w; give another with --data", dir, err)
	}
	if d := (Disk{Folder: dir, Free: free, Needed: cfg.minFree(), State: DiskLow}); free < d.Needed {
		return fmt.Errorf("%s; delete files there, or give another folder with --data", d)
	}
	probe := filepath.Join(dir, ".writable")
	if err := os.WriteFile(probe, []byte("probe"), 0o644); err != nil {
		return fmt.Errorf("data directory %s can not be written: %w; give another with --data", dir, rootCause(err))
	}
	return os.Remove(probe)
}

func (cfg *Config) minFree() int64 {
	if cfg.MinFree > 0 {
		return cfg.MinFree
	}
	return DefaultMinFree
}

// watchDisk checks the disk until ctx ends. A store that stopped taking writes is opened again once there is space.
func (s *Server) watchDisk(ctx context.Context, cfg *Config) error {
	s.disk.folder, s.disk.minFree = cfg.StoreDir, cfg.minFree()
	if _, err := s.checkDisk(cfg); err != nil {
		return fmt.Errorf("data directory %s: %w", cfg.StoreDir, err)
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
				recover, err := s.checkDisk(cfg)
				if err != nil {
					cfg.Log.Warn().Err(err).Str("folder", cfg.StoreDir).Msg("free space of the data folder not known")
				}
				if !recover {
					retry = backoff{}
				} else if retry.due(now) {
					s.restart(cfg)
				}
			}
		}
	})
	return nil
}

// checkDisk takes up how the disk is now, and reports whether the store should be opened again.
func (s *Server) checkDisk(cfg *Config) (recover bool, err error) {
	free, err := FreeBytes(s.disk.folder)
	if err != nil {
		return false, err
	}
	s.disk.mu.Lock()
	before := s.disk.disk
	now, recover := before.next(s.disk.folder, free, s.disk.minFree, s.writeError())
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
	return recover, nil
}

// writeError returns why the store takes no writes; "": it takes them. nats-server keeps a write error until the
// stream is opened again, and in a cluster turns JetStream off.
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

// reopen starts the server again, with the store as it is on disk. JetStream alone could be enabled again, but a stream
// that is not read yet would be reported as missing to clients, which would make it again. Where the folder still takes
// no bytes the server goes on: clients can talk through it.
func (s *Server) restart(cfg *Config) {
	s.reload.Lock()
	defer s.reload.Unlock()
	if err := cfg.checkWritable(); err != nil {
		cfg.Log.Error().Err(err).Msg("store not opened again yet; this node goes on trying")
		return
	}
	cfg.Log.Warn().Msg("opening the store again: the NATS server of this node starts again, and clients reconnect")
	s.nats.stop()
	if err := s.nats.start(); err != nil {
		cfg.Log.Error().Err(err).Msg("store not opened again yet; this node goes on trying")
	}
}

// FreeBytes returns the space that is free in the file system of a folder.
func FreeBytes(folder string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, fmt.Errorf("free space: %w", err)
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}

func formatBytes(n int64) string { return units.FormatBytes(n) }
