package audit

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// longest is the most bytes of a field.
const longest = 256

// clean bounds a field's length, and escapes characters that are not printable.
func clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= longest {
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

// file is appended to. Once it was renamed or removed, as logrotate does, it is made anew.
type file struct {
	path string
	f    *os.File
	info os.FileInfo
	torn bool // the last line is not whole
}

func (f *file) open() error {
	opened, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w; name a file that the node may write to", err)
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
	f.f, f.info, f.torn = opened, info, false
	return nil
}

func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close() // each line was written already
	}
}

// write appends a line.
func (f *file) write(line []byte) error {
	if now, err := os.Lstat(f.path); err != nil || !os.SameFile(now, f.info) {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.f.Write(line)
	f.torn = n > 0 && n < len(line) || f.torn && n == 0
	return err
}
