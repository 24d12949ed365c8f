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
type copied struct {
	folder string
	saver  *backup.Saver // nil: no copy is kept
	terms  atomic.Pointer[func() uint64]
	last   backup.State // as it was saved last; of the saver's goroutine
	wrote  uint64       // mirror.changes that last has; likewise
	limit  atomic.Uint64
	term   uint64 // at the start
	ends   atomic.Bool
}

func (c *copied) start(s *Store, cfg Config) {
	if cfg.Folder == "" {
		return
	}
	c.folder = cfg.Folder
	if known := cfg.Copy; known != nil {
		c.last.Saved, c.last.Stopped, c.last.Term, c.last.TermLimit = known.Saved, known.Stopped, known.Term, known.TermLimit
		c.limit.Store(known.TermLimit)
		c.term = known.Term
	}
	c.saver = backup.NewSaver(func() error { return c.write(&s.seen) })
	s.seen.changed = c.saver.Request
}

// save returns once all that this node knows is on its disk.
func (c *copied) save(ctx context.Context) error {
	if c.saver == nil {
		return nil
	}
	return c.saver.Save(ctx)
}

// write is called by the saver.
func (c *copied) write(seen *mirror) error {
	next, changes := seen.state()
	next.Saved, next.Term, next.TermLimit = c.last.Saved, c.last.Term, c.last.TermLimit
	next.Stopped = c.ends.Load()
	raised := false
	if terms := c.terms.Load(); terms != nil {
		raised = next.LimitTerms((*terms)())
	}
	if changes == c.wrote && !raised && next.Stopped == c.last.Stopped {
		return nil
	}
	if err := backup.Save(c.folder, &next); err != nil {
		return err
	}
	c.last, c.wrote = next, changes
	c.limit.Store(next.TermLimit)
	return nil
}

// forget drops what was taken from a copy of another cluster. Nothing was saved yet.
func (c *copied) forget() {
	c.last.Term, c.last.TermLimit, c.term = 0, 0, 0
	c.limit.Store(0)
}

// Terms returns the highest term that the copy had at the start, and the limit of terms; 0 where it had none.
func (s *Store) Terms() (seen, limit uint64) { return s.copy.term, s.copy.limit.Load() }

// KeepTerms has the copy hold a limit that is above all terms that members are given, and returns once it does.
// It asks highest now and then; members never wait for it.
func (s *Store) KeepTerms(ctx context.Context, highest func() uint64) error {
	s.copy.terms.Store(&highest)
	return s.copy.save(ctx)
}

// checkTerms raises the limit of terms where it is near.
func (c *copied) checkTerms() {
	if terms := c.terms.Load(); c.saver != nil && terms != nil && (*terms)()+backup.TermGap/2 >= c.limit.Load() {
		c.saver.Request()
	}
}

// Close ends the copy. All that was known is in it.
func (s *Store) Close() {
	if s.copy.saver != nil {
		s.copy.ends.Store(true)
		s.copy.saver.Request()
		s.copy.saver.Close()
	}
}

// synced returns once what was written under a key is on this node's disk. Failed is the error of the write.
func (s *Store) synced(ctx context.Context, key string, failed error) error {
	if failed != nil || s.copy.saver == nil {
		return failed
	}
	msg, err := s.stream.GetLastMsgForSubject(ctx, bucket.Subject(Bucket, key))
	if err == nil {
		s.seen.put(key, held{value: msg.Data, revision: msg.Sequence, deleted: msg.Header.Get(operation) != ""})
		err = s.copy.save(ctx)
	}
	if err != nil {
		return fmt.Errorf("key %s is stored, but its copy is not on this node's disk: %w; write it again", key, err)
	}
	return nil
}

// state returns what is known as it is copied, and the number of its last change.
func (m *mirror) state() (s backup.State, changes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = backup.State{Created: m.created, Revision: m.seen, Keys: make(map[string]backup.Key, len(m.keys))}
	for key, h := range m.keys {
		s.Keys[key] = backup.Key{Value: h.value, Revision: h.revision, Deleted: h.deleted}
	}
	return s, m.changes
}

// load takes in keys of a bucket that was made at a time.
func (m *mirror) load(keys map[string]backup.Key, last uint64, created time.Time) {
	for name, key := range keys {
		m.put(name, held{value: key.Value, revision: key.Revision, deleted: key.Deleted})
	}
	m.reached(last)
	m.belong(created)
}
