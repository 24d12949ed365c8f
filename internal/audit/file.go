package audit

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// maxField is the maximum length of a field in bytes.
const maxField = 256

// clean bounds a field's length and escapes unprintable characters.
func clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= maxField {
			fmt.Fprintf(&b, "… (%d bytes)", len(s))
			break
		}
		if _, width := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && width == 1 || !unicode.IsPrint(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// file is an append-only file. It is created again after it was renamed or removed, as logrotate
// does.
type file struct {
	path       string
	f          *os.File
	info       os.FileInfo
	incomplete bool // the last line is incomplete
}

func (f *file) open() error {
	opened, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w; choose a file that the node can write", err)
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.path)
	}
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		err = fmt.Errorf("%s can be changed by others; chmod 600 %s", f.path, f.path)
	}
	if err != nil {
		_ = opened.Close()
		return fmt.Errorf("audit log: %w", err)
	}
	f.close()
	f.f, f.info, f.incomplete = opened, info, false
	return nil
}

func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close() // each line is already written
	}
}

// write appends a line.
func (f *file) write(line []byte) error {
	if now, err := os.Lstat(f.path); err != nil || !os.SameFile(now, f.info) {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.incomplete {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.f.Write(line)
	f.incomplete = n > 0 && n < len(line) || f.incomplete && n == 0
	return err
}
