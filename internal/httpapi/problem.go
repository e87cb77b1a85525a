package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/queue"
)

// The closed list of problem types (RFC 9457).
const (
	problemInvalid      = "urn:headrace:problem:invalid-request"
	problemUnauthorized = "urn:headrace:problem:unauthorized"
	problemForbidden    = "urn:headrace:problem:forbidden"
	problemNotFound     = "urn:headrace:problem:not-found"
	problemConflict     = "urn:headrace:problem:conflict"
	problemKeyReused    = "urn:headrace:problem:key-reused"
	problemTooLarge     = "urn:headrace:problem:too-large"
	problemUnavailable  = "urn:headrace:problem:unavailable"
	problemInternal     = "urn:headrace:problem:internal"
)

func newProblem(status int, kind, detail string) *huma.ErrorModel {
	return &huma.ErrorModel{Type: kind, Title: http.StatusText(status), Status: status, Detail: detail}
}

// problemOf maps an error from below to a problem. The error's text is the detail: whoever may call is trusted with it.
func problemOf(err error) *huma.ErrorModel {
	switch {
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, dispatch.ErrNoPool):
		return newProblem(http.StatusNotFound, problemNotFound, err.Error())
	case errors.Is(err, queue.ErrConflict):
		return newProblem(http.StatusConflict, problemConflict, err.Error())
	case errors.Is(err, queue.ErrInvalid), errors.Is(err, dispatch.ErrBadRequest):
		return newProblem(http.StatusUnprocessableEntity, problemInvalid, err.Error())
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, queue.ErrUncertain):
		return newProblem(http.StatusServiceUnavailable, problemUnavailable, err.Error()+"; send the same again later")
	case errors.Is(err, queue.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return newProblem(http.StatusServiceUnavailable, problemUnavailable, "shutting down or overloaded; try again")
	default:
		return newProblem(http.StatusInternalServerError, problemInternal, err.Error())
	}
}

// typeProblems gives the problems that the framework itself reports a type of the list.
func typeProblems(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok || m.Type != "" {
		return v, nil
	}
	switch {
	case m.Status == http.StatusRequestEntityTooLarge:
		m.Type = problemTooLarge
		m.Detail += ": send fewer or smaller jobs a request"
	case m.Status == http.StatusNotFound:
		m.Type = problemNotFound
	case m.Status >= 500:
		m.Type = problemInternal
	default:
		m.Type = problemInvalid
		if len(m.Errors) == 1 && strings.HasPrefix(m.Errors[0].Message, "unknown content type") {
			m.Detail = m.Errors[0].Message + "; send Content-Type: application/json"
		}
	}
	return m, nil
}

func writeProblem(w http.ResponseWriter, p *huma.ErrorModel) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) //nolint:errcheck // the client is gone
}

func indented(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
