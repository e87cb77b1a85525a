package dashboard

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func get(t *testing.T, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

func TestEveryFileIsServedAsWhatItIs(t *testing.T) {
	types := map[string]string{
		"/": "text/html; charset=utf-8", "/index.html": "text/html; charset=utf-8", "/app.css": "text/css; charset=utf-8",
		"/app.js": "text/javascript; charset=utf-8", "/icon.svg": "image/svg+xml",
	}
	for name := range load(files) {
		want, ok := types[name]
		if !ok {
			want = types["/app"+path.Ext(name)]
		}
		w := get(t, name)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != want || w.Body.Len() == 0 {
			t.Errorf("%s: got %d %q and %d bytes, want 200 %q", name, w.Code, w.Header().Get("Content-Type"), w.Body.Len(), want)
		}
	}
	if get(t, "/").Body.String() != get(t, "/index.html").Body.String() {
		t.Error("/ is not index.html")
	}
}

func TestHeadersForbidWhatThePageDoesNotNeed(t *testing.T) {
	for _, target := range []string{"/", "/app.js", "/no-such-page", "/../dashboard.go"} {
		h := get(t, target).Header()
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q without %q", target, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %v", target, h)
		}
	}
	for _, target := range []string{"/no-such-page", "/../dashboard.go", "/page/app.js"} {
		if code := get(t, target).Code; code != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", target, code)
		}
	}
}

func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	etag := get(t, "/app.js").Header().Get("ETag")
	if w := get(t, "/app.js", "If-None-Match", etag); etag == "" || w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("with its ETag %s: got %d and %d bytes, want 304 and none", etag, w.Code, w.Body.Len())
	}
	if w := get(t, "/app.js", "If-None-Match", `"other"`); w.Code != http.StatusOK {
		t.Errorf("with another ETag: got %d, want 200", w.Code)
	}
}

// The page must ask nothing of other hosts, must work below a sub-path, and must write what strangers sent as text only.
func TestSourcesKeepTheRules(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		"an address of another host":         regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.[a-z]`),
		"an address from the root":           regexp.MustCompile(`(?:src|href)="/|fetch\(['"` + "`" + `]/`),
		"text that is parsed as HTML":        regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|createContextualFragment`),
		"code from text":                     regexp.MustCompile(`\beval\(|new Function|setTimeout\(['"]`),
		"a handler or style in an attribute": regexp.MustCompile(`<[^>]+\s(on[a-z]+|style)=`),
		"a script in the page":               regexp.MustCompile(`<script[^>]*>[^<]`),
	}
	namespace := regexp.MustCompile(`http://www\.w3\.org/2000/svg`)
	bytes := 0
	for name, a := range load(files) {
		text := namespace.ReplaceAllString(string(a.body), "")
		for what, re := range forbidden {
			if m := re.FindString(text); m != "" {
				t.Errorf("%s has %s: %q", name, what, m)
			}
		}
		bytes += len(a.body)
	}
	if bytes > 80<<10 {
		t.Errorf("the page has %d bytes: it is meant to be small", bytes)
	}
}

// What one file names of another is there.
func TestFilesFitTogether(t *testing.T) {
	assets := load(files)
	index := string(assets["/index.html"].body)
	var ids []string
	for _, m := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(index, -1) {
		if slices.Contains(ids, m[1]) {
			t.Errorf("id %q is there twice", m[1])
		}
		ids = append(ids, m[1])
	}
	for _, m := range regexp.MustCompile(`\$\('([^']+)'\)`).FindAllStringSubmatch(string(assets["/app.js"].body), -1) {
		if !slices.Contains(ids, m[1]) {
			t.Errorf("app.js uses #%s, which index.html does not have", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?:aria-labelledby|for|href)="#?([a-z-]+)"`).FindAllStringSubmatch(index, -1) {
		if !slices.Contains(ids, m[1]) {
			t.Errorf("index.html refers to #%s, which it does not have", m[1])
		}
	}
	exported := map[string]string{}
	for name, a := range assets {
		for _, m := range regexp.MustCompile(`(?m)^export (?:const|class|function|async function) ([\w$]+)`).FindAllStringSubmatch(string(a.body), -1) {
			exported[name+" "+m[1]] = m[1]
		}
	}
	imports := regexp.MustCompile(`import \{ ([^}]+) \} from '\./([a-z.]+)';`)
	seen := 0
	for name, a := range assets {
		for _, m := range imports.FindAllStringSubmatch(string(a.body), -1) {
			for what := range strings.SplitSeq(m[1], ", ") {
				seen++
				if exported["/"+m[2]+" "+what] == "" {
					t.Errorf("%s imports %s, which %s does not export", name, what, m[2])
				}
				if strings.Count(string(a.body), what) < 2 {
					t.Errorf("%s imports %s and does not use it", name, what)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("looked at %d imports only", seen)
	}
}
