// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// watchFor is how long a watch without a timeout lasts (kube-apiserver, --min-request-timeout).
const watchFor = 30 * time.Minute

// Config returns the configuration of a client that reaches the server through a transport: the server itself, or a
// wrapper around it.
func Config(through http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host: "http://kubernetes.default.svc", Transport: through, QPS: -1,
		// It speaks JSON only.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

// target is the collection or object of a request.
type target struct {
	*collection
	key
	ofStatus bool
}

// RoundTrip is part of [http.RoundTripper].
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := s.serve(r)
	if err != nil {
		return failure(r, err), nil
	}
	code := http.StatusOK
	if r.Method == http.MethodPost {
		code = http.StatusCreated
	}
	return response(r, code, body), nil
}

// failure answers with a Status object.
func failure(r *http.Request, err error) *http.Response {
	refused, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		refused = apierrors.NewInternalError(err)
	}
	status := refused.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := encoded(status)
	if err != nil {
		body = io.NopCloser(strings.NewReader(err.Error()))
	}
	return response(r, int(status.Code), body)
}

func response(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: body, ContentLength: -1, Request: r,
	}
}

func encoded(answer any) (io.ReadCloser, error) {
	text, err := json.Marshal(answer)
	return io.NopCloser(bytes.NewReader(text)), err
}

func (s *Server) serve(r *http.Request) (io.ReadCloser, error) {
	switch r.URL.Path {
	case "/api":
		return encoded(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"},
			Versions: []string{"v1"}})
	case "/apis":
		return encoded(groups())
	}
	version, rest, err := groupVersion(r.URL.Path)
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return encoded(resources(version))
	}
	t, err := s.target(version, rest)
	if err != nil {
		return nil, err
	}
	if t.key.name != "" {
		return s.serveObject(r, t)
	}
	return s.serveCollection(r, t)
}

func groupVersion(path string) (schema.GroupVersion, []string, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) >= 2:
		return schema.GroupVersion{Version: parts[1]}, parts[2:], nil
	case parts[0] == "apis" && len(parts) >= 3:
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:], nil
	default:
		return schema.GroupVersion{}, nil,
			apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, path, "", 0, false)
	}
}

// target returns the target that the rest of a path names.
func (s *Server) target(version schema.GroupVersion, path []string) (target, error) {
	var t target
	if path[0] == "namespaces" && len(path) > 2 {
		t.namespace, path = path[1], path[2:]
	}
	for _, c := range s.collections {
		if c.GroupVersion == version && c.resource == path[0] {
			t.collection = c
		}
	}
	subresource := ""
	switch len(path) {
	case 1:
	case 2:
		t.key.name = path[1]
	default:
		t.key.name, subresource = path[1], path[2]
	}
	t.ofStatus = subresource == "status"
	if t.collection == nil || subresource != "" && (!t.ofStatus || !t.isCustom && !t.hasStatus) {
		return t, apierrors.NewNotFound(schema.GroupResource{Group: version.Group, Resource: path[0]}, t.key.name)
	}
	return t, nil
}

func (s *Server) serveObject(r *http.Request, t target) (io.ReadCloser, error) {
	var o *object
	var err error
	switch {
	case r.Method == http.MethodGet:
		o, err = s.get(t.collection, t.key)
	case r.Method == http.MethodPatch:
		o, err = s.servePatch(r, t)
	case r.Method == http.MethodPut && !t.ofStatus:
		o, err = s.servePut(r, t)
	case r.Method == http.MethodDelete && !t.ofStatus:
		o, err = s.serveDelete(r, t)
	default:
		return nil, apierrors.NewMethodNotSupported(t.groupResource(), r.Method)
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(o.encoded)), nil
}

func (s *Server) servePatch(r *http.Request, t target) (*object, error) {
	format, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if types.PatchType(format) == types.JSONPatchType {
		return s.serveOperations(r, t)
	}
	content, err := decode(r)
	if err != nil {
		return nil, err
	}
	manager := r.URL.Query().Get("fieldManager")
	return s.update(t.collection, t.key, func(after *unstructured.Unstructured) error {
		return t.patch(after, types.PatchType(format), content, manager)
	})
}

func (s *Server) servePut(r *http.Request, t target) (*object, error) {
	content, err := decode(r)
	if err != nil {
		return nil, err
	}
	return s.update(t.collection, t.key, func(after *unstructured.Unstructured) error {
		t.replace(after, content)
		return nil
	})
}

func (s *Server) serveDelete(r *http.Request, t target) (*object, error) {
	content, err := decode(r)
	if err != nil {
		return nil, err
	}
	uid, _, _ := unstructured.NestedString(content, "preconditions", "uid")
	version, _, _ := unstructured.NestedString(content, "preconditions", "resourceVersion")
	return s.delete(t.collection, t.key, types.UID(uid), version)
}

// decode reads the body of a request. A delete may have none.
func decode(r *http.Request) (map[string]any, error) {
	content := map[string]any{}
	if r.Body == nil {
		return content, nil
	}
	text, err := io.ReadAll(r.Body)
	if err == nil && len(text) > 0 {
		err = utiljson.Unmarshal(text, &content)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return content, nil
}

func (s *Server) serveCollection(r *http.Request, t target) (io.ReadCloser, error) {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		content, err := decode(r)
		if err != nil {
			return nil, err
		}
		o, err := s.create(t.collection, t.namespace, &unstructured.Unstructured{Object: content})
		if err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(o.encoded)), nil
	case r.Method != http.MethodGet:
		return nil, apierrors.NewMethodNotSupported(t.groupResource(), r.Method)
	case query.Get("watch") != "":
		i, err := interestOf(t.namespace, query)
		if err != nil {
			return nil, err
		}
		return s.watch(r.Context(), t.collection, i)
	default:
		return s.serveList(t, query)
	}
}

func interestOf(namespace string, query url.Values) (interest, error) {
	i := interest{
		scope: scope{namespace: namespace}, timeout: watchFor,
		initialEvents: query.Get("sendInitialEvents") == "true", bookmarks: query.Get("allowWatchBookmarks") == "true",
	}
	if query.Get("labelSelector") != "" {
		return i, apierrors.NewBadRequest("watches by label are not simulated")
	}
	wanted, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return i, apierrors.NewBadRequest(err.Error())
	}
	if !wanted.Empty() {
		name, is := wanted.RequiresExactMatch("metadata.name")
		if !is || len(wanted.Requirements()) > 1 {
			return i, apierrors.NewBadRequest("watches by other fields than metadata.name are not simulated")
		}
		i.name = name
	}
	if given := query.Get("timeoutSeconds"); given != "" {
		seconds, err := strconv.Atoi(given)
		if err != nil {
			return i, apierrors.NewBadRequest(err.Error())
		}
		i.timeout = time.Duration(seconds) * time.Second
	}
	if given := query.Get("resourceVersion"); given != "" {
		version, err := strconv.ParseInt(given, 10, 64)
		if err != nil {
			return i, apierrors.NewBadRequest(err.Error())
		}
		i.after = version
	}
	return i, nil
}

func (s *Server) serveList(t target, query url.Values) (io.ReadCloser, error) {
	wanted, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	fieldsWanted, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	found, version := s.list(t.collection, t.namespace)
	found = slices.DeleteFunc(found, func(o *object) bool {
		return !wanted.Matches(labels.Set(o.GetLabels())) || !fieldsWanted.Matches(fieldsOf{o})
	})
	found, next, err := page(found, query)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":[`,
		t.GroupVersion, t.collection.name+"List", version, next)
	for n, o := range found {
		if n > 0 {
			text.WriteByte(',')
		}
		text.Write(o.encoded)
	}
	text.WriteString("]}")
	return io.NopCloser(&text), nil
}

// page returns the part of a list that a query asks for, and the token of the next one. A token is the number of
// objects before the page, so that changes between two pages move them. A real server has all pages of one version.
func page(all []*object, query url.Values) (found []*object, next string, err error) {
	number := func(key string) (n int) {
		if given := query.Get(key); given != "" && err == nil {
			n, err = strconv.Atoi(given)
		}
		return n
	}
	limit, from := number("limit"), number("continue")
	if err != nil {
		return nil, "", err
	}
	all = all[min(max(from, 0), len(all)):]
	if limit <= 0 || limit >= len(all) {
		return all, "", nil
	}
	return all[:limit], strconv.Itoa(from + limit), nil
}

// fieldsOf are the fields of an object by their paths. It has every field that is a text, and a real server only those
// that a definition names as selectable.
type fieldsOf struct{ *object }

// Has is part of [fields.Fields].
func (f fieldsOf) Has(field string) bool { return f.Get(field) != "" }

// Get is part of [fields.Fields].
func (f fieldsOf) Get(field string) string {
	text, _, _ := unstructured.NestedString(f.Object, strings.Split(field, ".")...)
	return text
}
