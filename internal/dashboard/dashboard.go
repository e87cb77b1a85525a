// Package dashboard is the live page: pools, why each has its size, and the last minutes of the chosen one.
//
// It is plain HTML, CSS and JavaScript embedded in the binary, without a framework or a build step. It reads the
// API with relative addresses, so that it works below a sub-path, and asks nothing of any other host.
package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

//go:embed page
var files embed.FS

// policy lets the page load its own files and talk to its own server, and nothing else. No page may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// asset is one embedded file with what is sent beside it.
type asset struct {
	body        []byte
	contentType string
	etag        string
}

// Handler serves the page at / and its files beside it; everything else is not found.
func Handler() http.Handler {
	assets := load(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Clean("/" + r.URL.Path)
		if name == "/" {
			name = "/index.html"
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		a, ok := assets[name]
		if !ok {
			http.Error(w, "no such page; the dashboard is at /, the API below /api/v1", http.StatusNotFound)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Cache-Control", "no-cache") // a new binary shows its own page at once
		h.Set("ETag", a.etag)
		if r.Header.Get("If-None-Match") == a.etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", a.contentType)
		if r.Method == http.MethodGet {
			w.Write(a.body) //nolint:errcheck // the browser is gone
		}
	})
}

// load reads the embedded files, by the path they are served at.
func load(from fs.FS) map[string]asset {
	assets := map[string]asset{}
	err := fs.WalkDir(from, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		assets["/"+path.Base(name)] = asset{
			body: body, contentType: contentType(name), etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		}
		return nil
	})
	if err != nil {
		panic(err) // the files are in the binary: only a broken build gets here
	}
	return assets
}

// contentType does not ask the machine for the types that browsers are strict about.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}
