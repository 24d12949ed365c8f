package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"troupe/cluster/backup"
	"troupe/cluster/bucket"
)

// copied is the copy of the desired state in the data folder.
type localCopy struct {
	folder       string
	saver        *backup.Saver // nil: no copy is kept
	highestTerm  atomic.Pointer[func() uint64]
	last         backup.State // as it was saved last; of the saver's goroutine
	savedChanges uint64       // mirror.changes that last has; likewise
	termLimit    atomic.Uint64
	startTerm    uint64 // at the start
	stopping     atomic.Bool
}

func (c *localCopy) start(s *Store, cfg Config) {
	if cfg.Folder == "" {
		return
	}
	c.folder = cfg.Folder
	if known := cfg.Copy; known != nil {
		c.last.Saved, c.last.Stopped, c.last.Term, c.last.TermLimit = known.Saved, known.Stopped, known.Term, known.TermLimit
		c.termLimit.Store(known.TermLimit)
		c.startTerm = known.Term
	}
	c.saver = backup.NewSaver(func() error { return c.write(&s.mirror) })
	s.mirror.onChange = c.saver.Request
}

// save returns once all that this node knows is on its disk.
func (c *localCopy) save(ctx context.Context) error {
	if c.saver == nil {
		return nil
	}
	return c.saver.Save(ctx)
}

// write is called by the saver.
func (c *localCopy) write(seen *mirror) error {
	next, changes := seen.backupState()
	next.Saved, next.Term, next.TermLimit = c.last.Saved, c.last.Term, c.last.TermLimit
	next.Stopped = c.stopping.Load()
	raised := false
	if terms := c.highestTerm.Load(); terms != nil {
		raised = next.RecordTerm((*terms)())
	}
	if changes == c.savedChanges && !raised && next.Stopped == c.last.Stopped {
		return nil
	}
	if err := backup.Save(c.folder, &next); err != nil {
		return err
	}
	c.last, c.savedChanges = next, changes
	c.termLimit.Store(next.TermLimit)
	return nil
}

// forget drops what was taken from a copy of another cluster. Nothing was saved yet.
func (c *localCopy) discardTerms() {
	c.last.Term, c.last.TermLimit, c.startTerm = 0, 0, 0
	c.termLimit.Store(0)
}

// Terms returns the highest term that the copy had at the start, and the limit of terms; 0 where it had none.
func (s *Store) Terms() (seen, limit uint64) { return s.local.startTerm, s.local.termLimit.Load() }

// TrackTerms has the copy hold a limit that is above all terms that members are given, and returns once it does.
// It asks highest now and then; members never wait for it.
func (s *Store) TrackTerms(ctx context.Context, highest func() uint64) error {
	s.local.highestTerm.Store(&highest)
	return s.local.save(ctx)
}

// raiseTermLimit raises the limit of terms where it is near.
func (c *localCopy) raiseTermLimit() {
	if terms := c.highestTerm.Load(); c.saver != nil && terms != nil && (*terms)()+backup.TermGap/2 >= c.termLimit.Load() {
		c.saver.Request()
	}
}

// Close ends the copy. All that was known is in it.
func (s *Store) Close() {
	if s.local.saver != nil {
		s.local.stopping.Store(true)
		s.local.saver.Request()
		s.local.saver.Close()
	}
}

// synced returns once what was written under a key is on this node's disk. Failed is the error of the write.
func (s *Store) syncCopy(ctx context.Context, key string, failed error) error {
	if failed != nil || s.local.saver == nil {
		return failed
	}
	msg, err := s.stream.GetLastMsgForSubject(ctx, bucket.Subject(Bucket, key))
	if err == nil {
		s.mirror.put(key, entry{value: msg.Data, revision: msg.Sequence, deleted: msg.Header.Get(operationHeader) != ""})
		err = s.local.save(ctx)
	}
	if err != nil {
		return fmt.Errorf("key %s is stored, but its copy is not on this node's disk: %w; write it again", key, err)
	}
	return nil
}

// state returns what is known as it is copied, and the number of its last change.
func (m *mirror) backupState() (s backup.State, changes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = backup.State{Created: m.created, Revision: m.revision, Keys: make(map[string]backup.Key, len(m.keys))}
	for key, h := range m.keys {
		s.Keys[key] = backup.Key{Value: h.value, Revision: h.revision, Deleted: h.deleted}
	}
	return s, m.changes
}

// load takes in keys of a bucket that was made at a time.
func (m *mirror) load(keys map[string]backup.Key, last uint64, created time.Time) {
	for name, key := range keys {
		m.put(name, entry{value: key.Value, revision: key.Revision, deleted: key.Deleted})
	}
	m.advance(last)
	m.setCreated(created)
}
