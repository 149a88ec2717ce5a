"""A collector of OTLP over HTTP that takes nothing but what the protocol's own schema knows.

POST /v1/traces and /v1/metrics as protobuf or JSON; GET /received gives what came, as JSON. Prints its port.
"""

import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
received = []


def refuse_unknown(message):
    """Bytes of a newer or wrong schema are kept beside the message and would pass unseen."""
    if len(UnknownFieldSet(message)) > 0:
        raise ValueError(f"{message.DESCRIPTOR.full_name} has fields that the schema does not know")
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for one in value if field.is_repeated else [value]:
            refuse_unknown(one)


def parse(kind, content_type, body):
    message = kind()
    if content_type == "application/x-protobuf":
        message.ParseFromString(body)
    elif content_type == "application/json":
        # Ids are hexadecimal in OTLP's JSON, and base64 in that of protobuf: the one exception of the protocol.
        json_format.ParseDict(with_base64_ids(json.loads(body)), message, ignore_unknown_fields=False)
    else:
        raise ValueError(f"the content type is {content_type}")
    refuse_unknown(message)
    return message


def with_base64_ids(value, name=None):
    if isinstance(value, dict):
        return {key: with_base64_ids(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [with_base64_ids(one, name) for one in value]
    if name in ("traceId", "spanId", "parentSpanId") and isinstance(value, str):
        return base64.b64encode(bytes.fromhex(value)).decode()
    return value


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.read_body()
        content_type = self.headers["content-type"].split(";")[0]
        entry = {"path": self.path, "contentType": content_type}
        try:
            message = parse(REQUESTS[self.path], content_type, body)
            entry["body"] = json_format.MessageToDict(message)
            status = 200
        except Exception as error:  # What is refused is what the test is about.
            entry["error"] = f"{type(error).__name__}: {error}"
            status = 400
        received.append(entry)
        self.answer(status, {} if status == 200 else entry)

    def read_body(self):
        if self.headers["transfer-encoding"] != "chunked":
            return self.rfile.read(int(self.headers["content-length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def do_GET(self):
        self.answer(200, received)

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
