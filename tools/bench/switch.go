package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// switches measures all kinds of switches, for one table.
func switches() (section, error) {
	s := section{
		title: "Switches",
		how: "All kinds of switches of a device to another model, in one run. Cold: from a folder that is not in the " +
			"page cache. Parked: from the host cache. Another device: from the memory of a second software device of " +
			"the node. They are over their floors, which are bare reads and copies of the same bytes; models are " +
			"generated with random weights. Standby: the replica and its weights are on the device. The sections " +
			"on loads of weights and on standby in docs/benchmarks.md say how each is measured.",
	}
	for _, bytes := range loadSizes {
		rows, err := loadsOf(bytes, []string{"cold", "parked", "another device"})
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, rows...)
	}
	last, err := standby()
	s.rows = append(s.rows, last.rows...)
	return s, err
}

// switchPage returns the table of the switches.
func switchPage() (string, error) {
	s, err := switches()
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(s.table(), "\n"), nil
}

// changeFloor does what a change of the desired state costs at least. See standby.
type changeFloor struct {
	conn *nats.Conn
	kv   jetstream.KeyValue
	dir  string
	echo *nats.Subscription
}

const (
	floorKey   = "key"
	floorBytes = 4 << 10
)

func newChangeFloor(conn *nats.Conn) (f *changeFloor, err error) {
	f = &changeFloor{conn: conn}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if f.kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bench"}); err != nil {
		return nil, err
	}
	if _, err := f.kv.Put(ctx, floorKey, nil); err != nil {
		return nil, err
	}
	if f.echo, err = conn.Subscribe("bench.echo", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		return nil, err
	}
	f.dir, err = os.MkdirTemp("", "floor")
	return f, err
}

func (f *changeFloor) close() { _ = errors.Join(f.echo.Unsubscribe(), os.RemoveAll(f.dir)) } // the process exits soon

func (f *changeFloor) change() error {
	ctx, value := context.Background(), make([]byte, floorBytes)
	if _, err := f.conn.Request("bench.echo", nil, standbyWait); err != nil {
		return err
	}
	e, err := f.kv.Get(ctx, floorKey)
	if err != nil {
		return err
	}
	if _, err := f.kv.Update(ctx, floorKey, value, e.Revision()); err != nil {
		return err
	}
	file, err := os.CreateTemp(f.dir, "floor-*")
	if err != nil {
		return err
	}
	_, err = file.Write(value)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), filepath.Join(f.dir, floorKey)); err != nil {
		return err
	}
	folder, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
