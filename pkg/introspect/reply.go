package introspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	// chunk is how much of a body is written at a time, in bytes. A body that is not longer fits the buffers of a connection.
	chunk = 64 << 10
	// chunkTimeout bounds the time to write a chunk, so that a reader who has stopped reading is given up soon; writeTimeout
	// bounds the time from the end of a request to the end of its answer.
	chunkTimeout = 3 * time.Second
	writeTimeout = 30 * time.Second
)

// problem is the body of an answer that is not 200.
type problem struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, code int, err error) {
	body, code := encode(problem{err.Error()}, code)
	deliver(w, code, body)
}

func busy(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	fail(w, http.StatusServiceUnavailable, err)
}

// encode returns a value as JSON, and the code that goes with it.
func encode(value any, code int) ([]byte, int) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return []byte(`{"error":"the answer cannot be written as JSON"}` + "\n"), http.StatusInternalServerError
	}
	return body.Bytes(), code
}

// deliver writes an answer. Its length is known before the first byte, so that a client can tell a body that was cut off.
func deliver(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	end, control := time.Now().Add(writeTimeout), http.NewResponseController(w)
	for part := range slices.Chunk(body, chunk) {
		deadline := time.Now().Add(chunkTimeout)
		if deadline.After(end) {
			deadline = end
		}
		if err := control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return // the connection is gone
		}
		if _, err := w.Write(part); err != nil {
			return // the client has left, or does not read; a HEAD has no body to write
		}
	}
}
