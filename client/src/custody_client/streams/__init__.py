"""What a model answered, assembled from its stream without touching it: `observable-output/1`."""

from custody_client.streams.addresses import api_of
from custody_client.streams.assembler import Assembler
from custody_client.streams.limits import Limits
from custody_client.streams.output import Output

__all__ = ["Assembler", "Limits", "Output", "api_of"]
