package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Open returns the requests of a file. Its format is recognized by its first line. The file is opened
// each time the source is read. o.File is set to the path if it is empty.
func Open(path string, o Options) (Source, error) {
	if o.File == "" {
		o.File = path
	}
	f, in, err := openFile(path)
	if err != nil {
		return nil, err
	}
	read, err := formatOf(in, o)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return func(yield func(Request, error) bool) {
		f, in, err := openFile(path)
		if err != nil {
			yield(Request{}, err)
			return
		}
		defer f.Close()
		read(in, o)(yield)
	}, nil
}

// openFile opens a file and decompresses it if it is compressed.
func openFile(path string) (*os.File, *bufio.Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("trace: %w", err)
	}
	in := bufio.NewReader(f)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		plain, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("trace %s: %w", path, err), f.Close())
		}
		in = bufio.NewReader(plain)
	}
	return f, in, nil
}

// formatOf returns the reader for a file.
func formatOf(in *bufio.Reader, o Options) (func(io.Reader, Options) Source, error) {
	line, err := in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", o.file(), err)
	}
	for _, f := range []struct {
		sign string
		read func(io.Reader, Options) Source
	}{
		{"hash_ids", ReadMooncake}, {"input_length", ReadMooncake}, {"ContextTokens", ReadAzure},
		{"arrival_s", ReadAdapters}, {"checkpoint_model_version_id", ReadImages},
	} {
		if strings.Contains(line, f.sign) {
			return f.read, nil
		}
	}
	return nil, &Error{o.file(), 1, "", "is of no known format",
		"use JSON lines with hash_ids, or CSV whose header has ContextTokens, arrival_s or " +
			"checkpoint_model_version_id"}
}

// OpenServeGen reads the files of ServeGen: the rates of clients, and their lengths.
func OpenServeGen(rates, lengths string, o Options) (*ServeGen, error) {
	if o.File == "" {
		o.File = rates
	}
	f, rateLines, err := openFile(rates)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g, lengthText, err := openFile(lengths)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return ReadServeGen(rateLines, lengthText, o, lengths)
}
