{{- /*
Copyright The multieni Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}
{{- define "multieni.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "multieni.labels" -}}
app.kubernetes.io/name: multieni
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "multieni.objectLabels" -}}
app.kubernetes.io/name: multieni
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "multieni.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "multieni.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* The arguments of the controller that decide what it does in EC2. `multieni drain` has the same flags. */ -}}
{{- define "multieni.controllerArgs" -}}
- --ec2-rate-share={{ .Values.controller.ec2RateShare }}
- --v={{ .Values.controller.verbosity }}
- --log-format={{ .Values.controller.logFormat }}
{{- range $key, $value := .Values.nodeCluster }}
{{- if $value }}
- {{ printf "--node-cluster=%s=%s" $key $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* NO_PROXY has instance metadata and EKS Pod Identity, by IPv4 and IPv6, the API server, and names of the cluster. The kubelet
replaces $(KUBERNETES_SERVICE_HOST) by the address of the API server. */ -}}
{{- define "multieni.controllerEnv" -}}
- {name: AWS_REGION, value: {{ .Values.awsRegion | quote }}}
- {name: CLUSTER_NAME, value: {{ .Values.clusterName | quote }}}
{{- with .Values.instanceTags }}
- {name: INSTANCE_TAGS, value: {{ join "," . | quote }}}
{{- end }}
- {name: MAX_CONCURRENT_RECONCILES, value: {{ .Values.controller.maxConcurrentReconciles | quote }}}
- {name: MAX_CONCURRENT_ENI_CLEANUP, value: {{ .Values.controller.maxConcurrentENICleanup | quote }}}
{{- with .Values.controller.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- with .Values.controller.proxy }}
{{- if .url }}
- {name: HTTPS_PROXY, value: {{ .url | quote }}}
- name: NO_PROXY
  value: {{ concat (list "169.254.169.254" "fd00:ec2::254" "169.254.170.23" "fd00:ec2::23" "$(KUBERNETES_SERVICE_HOST)" ".svc" ".cluster.local") .noProxy | join "," | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Where the pods of the controller and of its removal run. */ -}}
{{- define "multieni.controllerNodes" -}}
{{- with .Values.controller.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.controller.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
