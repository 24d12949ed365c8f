package workload

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// servegenWindow is the time that a rate of ServeGen holds for.
const servegenWindow = 600 * time.Second

// servegenQuantiles is the number of quantiles of a length: 0 %, 1 % … 100 %.
const servegenQuantiles = 101

// ServeGen has the rates and lengths of the clients of one model, from which it generates requests.
type ServeGen struct {
	model   string
	file    string // of the lengths
	clients []*servegenClient
}

type servegenClient struct {
	id      string
	windows []rateWindow   // in order of time
	lengths []lengthWindow // likewise, of one day
}

// rateWindow is a time of servegenWindow in which a client sent requests.
type rateWindow struct {
	at       time.Duration
	requests int
	weibull  bool    // the distribution of the gaps; otherwise it is a gamma distribution
	shape    float64 // of the distribution; its scale follows from the number of requests
}

// lengthWindow has the quantiles of lengths from a time of the day on.
type lengthWindow struct {
	at     time.Duration
	prompt []Lengths // of the parts of a prompt: text, and images, audio and video for a model that takes them
	output Lengths
}

// servegenParts are the parts of a prompt.
var servegenParts = []string{"input_tokens", "text_tokens", "image_tokens", "audio_tokens", "video_tokens"}

// ReadServeGen reads the rates of clients as CSV, and their lengths as JSON. o.File is the file of the
// rates, lengthsFile that of the lengths.
func ReadServeGen(rates, lengths io.Reader, o Options, lengthsFile string) (*ServeGen, error) {
	s := &ServeGen{model: o.Model, file: lengthsFile}
	byID := make(map[string]*servegenClient)
	t, err := openTable(rates, o.file(), "client", "t_s", "rate", "dist", "shape")
	for err == nil {
		if err = t.next(); err != nil {
			break
		}
		var w rateWindow
		if w, err = readRate(t); err != nil {
			break
		}
		id := t.text("client")
		c := byID[id]
		if c == nil {
			c = &servegenClient{id: id}
			byID[id] = c
			s.clients = append(s.clients, c)
		}
		if n := len(c.windows); n > 0 && w.at <= c.windows[n-1].at {
			return nil, t.wrong("t_s", "is not after the time in the line above", "sort the lines of a client by t_s")
		}
		c.windows = append(c.windows, w)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s, s.readLengths(lengths, byID)
}

// readRate reads a line. A window with one request needs no distribution of gaps.
func readRate(t *table) (w rateWindow, err error) {
	at, err := t.number("t_s")
	if err != nil {
		return w, err
	}
	rate, err := t.number("rate")
	if err != nil {
		return w, err
	}
	w = rateWindow{at: seconds(at), requests: int(math.Round(rate * servegenWindow.Seconds()))}
	switch t.text("dist") {
	case "G":
	case "W":
		w.weibull = true
	default:
		return w, t.wrong("dist", "is not a distribution", "write G for gamma or W for Weibull, or remove the line")
	}
	if w.shape, err = t.number("shape"); err == nil && w.shape == 0 {
		err = t.wrong("shape", "is not positive", "write the fitted shape of the distribution, or remove the line")
	}
	return w, err
}

// readLengths reads {client: {second of the day: {"output_tokens": […101 quantiles…], …}}}.
func (s *ServeGen) readLengths(from io.Reader, clients map[string]*servegenClient) error {
	var raw map[string]map[string]map[string][]float64
	if err := json.NewDecoder(from).Decode(&raw); err != nil {
		return &Error{s.file, 0, "", "is not JSON of lengths: " + err.Error(),
			`write {"CLIENT": {"0": {"input_tokens": [101 numbers], "output_tokens": [101 numbers]}}}`}
	}
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		c := clients[id]
		if c == nil {
			continue // without requests
		}
		for _, second := range slices.Sorted(maps.Keys(raw[id])) {
			w, err := s.lengthWindow(id, second, raw[id][second])
			if err != nil {
				return err
			}
			c.lengths = append(c.lengths, w)
		}
		slices.SortFunc(c.lengths, func(a, b lengthWindow) int { return cmp.Compare(a.at, b.at) })
	}
	return nil
}

func (s *ServeGen) lengthWindow(id, second string, raw map[string][]float64) (w lengthWindow, err error) {
	wrong := func(key, problem, remedy string) error {
		return &Error{s.file, 0, fmt.Sprintf("client %s, %s, %s", id, second, key), problem, remedy}
	}
	at, err := strconv.Atoi(second)
	if err != nil || at < 0 {
		return w, wrong("time", "is not a second of a day", "write a whole number from 0 to 86399")
	}
	w.at = time.Duration(at) * time.Second
	for _, part := range append(servegenParts, "output_tokens") {
		q := raw[part]
		if len(q) == 0 {
			continue
		}
		if len(q) != servegenQuantiles || !slices.IsSorted(q) || q[0] < 0 {
			return w, wrong(part, fmt.Sprintf("has %d numbers, or they are not in order", len(q)),
				"write 101 quantiles from 0 % to 100 %")
		}
		if part == "output_tokens" {
			w.output = Evenly(q)
		} else {
			w.prompt = append(w.prompt, Evenly(q))
		}
	}
	if len(w.prompt) == 0 || len(w.output.Quantiles) == 0 {
		return w, wrong("lengths", "are missing", "write input_tokens or text_tokens, and output_tokens")
	}
	return w, nil
}
