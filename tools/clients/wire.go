package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// wire records the requests of the libraries, and can break their watches.
type wire struct {
	lock    sync.Mutex
	asked   []string
	streams map[*stream]struct{}
}

func (w *wire) wrap(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		w.note(request)
		response, err := inner.RoundTrip(request)
		if err == nil && request.URL.Query().Get("watch") != "" {
			response.Body = w.open(response.Body)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// note records lists and watches: strategy, start, and accepted types.
func (w *wire) note(request *http.Request) {
	query := request.URL.Query()
	if request.Method != http.MethodGet {
		return
	}
	said := []string{request.URL.Path}
	switch {
	case query.Get("sendInitialEvents") == "true":
		said = append(said, "watch with initial events, "+query.Get("resourceVersionMatch"))
	case query.Get("watch") != "" && query.Get("resourceVersion") != "":
		said = append(said, "watch from a revision")
	case query.Get("watch") != "":
		said = append(said, "watch")
	default:
		said = append(said, "get or list")
	}
	if query.Get("allowWatchBookmarks") == "true" {
		said = append(said, "bookmarks")
	}
	if limit := query.Get("limit"); limit != "" {
		said = append(said, "limit "+limit)
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.asked = append(w.asked, strings.Join(said, ", "))
}

// since returns and forgets the distinct kinds of requests below a path, sorted.
func (w *wire) since(path string) []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	var found []string
	for _, asked := range w.asked {
		if rest, below := strings.CutPrefix(asked, path); below {
			found = append(found, strings.TrimPrefix(rest, "/"))
		}
	}
	w.asked = nil
	slices.Sort(found)
	return slices.Compact(found)
}

// opened waits until this number of watches is open: a cache is full before its watch is asked for.
func (w *wire) opened(ctx context.Context, watches int) error {
	return until(ctx, fmt.Sprintf("%d watches are open", watches), func() (bool, error) {
		w.lock.Lock()
		defer w.lock.Unlock()
		return len(w.streams) >= watches, nil
	})
}

// breakAll breaks all open watches like a failing network.
func (w *wire) breakAll() int {
	w.lock.Lock()
	streams := w.streams
	w.streams = nil
	w.lock.Unlock()
	for stream := range streams {
		stream.broken()
	}
	return len(streams)
}

func (w *wire) open(body io.ReadCloser) io.ReadCloser {
	s := &stream{ReadCloser: body, wire: w}
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.streams == nil {
		w.streams = map[*stream]struct{}{}
	}
	w.streams[s] = struct{}{}
	return s
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	wire *wire
	once sync.Once
	cut  bool
}

func (s *stream) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	s.wire.lock.Lock()
	defer s.wire.lock.Unlock()
	if s.cut && err != nil {
		// The error of a broken connection.
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *stream) broken() {
	s.wire.lock.Lock()
	s.cut = true
	s.wire.lock.Unlock()
	_ = s.Close()
}

func (s *stream) Close() error {
	var err error
	s.once.Do(func() {
		s.wire.lock.Lock()
		delete(s.wire.streams, s)
		s.wire.lock.Unlock()
		err = s.ReadCloser.Close()
	})
	return err
}
