package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Writer writes a recording. It is not safe for concurrent use.
type Writer struct {
	out *bufio.Writer
	zip *gzip.Writer
}

// NewWriter returns a writer. Close must be called at the end; it does not close the file.
func NewWriter(to io.Writer) *Writer {
	zip := gzip.NewWriter(to)
	return &Writer{bufio.NewWriterSize(zip, 1<<16), zip}
}

// Write writes a line.
func (w *Writer) Write(l Line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return w.WriteText(text)
}

// WriteText writes a line that is JSON already.
func (w *Writer) WriteText(text []byte) error {
	_, err := w.out.Write(text)
	return errors.Join(err, w.out.WriteByte('\n'))
}

// Flush writes what is buffered, so that it can be read although the recording has not ended.
func (w *Writer) Flush() error { return errors.Join(w.out.Flush(), w.zip.Flush()) }

// Close writes the rest.
func (w *Writer) Close() error { return errors.Join(w.out.Flush(), w.zip.Close()) }
