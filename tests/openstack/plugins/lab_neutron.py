"""ML2 mechanism driver `lab`: binds every port to its first segment, ACTIVE, without an agent."""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class Driver(api.MechanismDriver):
    def initialize(self):
        pass

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        if context.segments_to_bind:
            context.set_binding(
                context.segments_to_bind[0][api.ID],
                portbindings.VIF_TYPE_OTHER,
                {portbindings.CAP_PORT_FILTER: True},
                status=constants.PORT_STATUS_ACTIVE,
            )
