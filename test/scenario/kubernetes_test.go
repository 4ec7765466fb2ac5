// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"context"
	"os/exec"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/multieni/multieni/internal/dev/child"
)

// kubernetes does, until the story ends, what Kubernetes' own controllers and a kubelet do for a release: it runs Jobs
// with this test's programs, and finishes the deletion of namespaces.
func kubernetes(ts *testscript.TestScript, _ bool, _ []string) {
	s := on(ts)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	ts.Defer(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			s.runJobs(ctx)
			s.finishNamespaces(ctx)
			return false, nil // a failure is retried
		})
	}()
}

func (s *stage) runJobs(ctx context.Context) {
	var jobs batchv1.JobList
	_ = s.api.List(ctx, &jobs)
	for _, job := range jobs.Items {
		if job.Status.StartTime != nil {
			continue
		}
		start := metav1.Now()
		job.Status.StartTime = &start
		kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
		if err := s.runJob(ctx, &job); err != nil {
			kinds, job.Status.Failed = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}, 1
		} else {
			end := metav1.NewTime(start.Add(time.Since(start.Time).Round(time.Second) + time.Second))
			job.Status.CompletionTime, job.Status.Succeeded = &end, 1
		}
		for _, kind := range kinds {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: start})
		}
		_ = s.api.Status().Update(ctx, &job)
	}
}

// runJob runs the container of a Job to its end, at the speed of the story's AWS.
func (s *stage) runJob(ctx context.Context, job *batchv1.Job) error {
	program, err := exec.LookPath("multieni")
	if err != nil {
		return err
	}
	flags := child.Flags(speed)[1:] // without the name of the command
	command := exec.CommandContext(ctx, program, append(job.Spec.Template.Spec.Containers[0].Args, flags...)...)
	command.Env = append(command.Environ(), s.Env()...)
	return command.Run()
}

func (s *stage) finishNamespaces(ctx context.Context) {
	var namespaces corev1.NamespaceList
	_ = s.api.List(ctx, &namespaces)
	for _, namespace := range namespaces.Items {
		if namespace.DeletionTimestamp != nil {
			namespace.Spec.Finalizers = nil
			_ = s.api.SubResource("finalize").Update(ctx, &namespace)
		}
	}
}
